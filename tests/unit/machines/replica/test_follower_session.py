"""A follower names only what changed since its last request."""

from tailrace.machines.fetch_session import FetchPartition, FetchSessions
from tailrace.machines.replica.session import FollowerSession


def begun(**wanted: int) -> FollowerSession[str, int]:
    session: FollowerSession[str, int] = FollowerSession()
    for key, value in wanted.items():
        session.want(key, value)
    return session


def test_the_first_request_names_everything_and_later_ones_what_changed() -> None:
    session = begun(a=1, b=2)
    assert session.ask() == (0, 0, {"a": 1, "b": 2}, [])
    session.answered(77)
    session.want("a", 1)
    session.want("b", 3)
    session.want("c", 4)
    assert session.ask() == (77, 1, {"b": 3, "c": 4}, [])
    session.answered(77)
    session.drop("a")
    session.drop("nothing")
    assert session.ask() == (77, 2, {}, ["a"])
    session.answered(77)
    assert session.ask() == (77, 3, {}, [])


def test_what_is_dropped_and_wanted_again_is_only_named() -> None:
    session = begun(a=1)
    session.ask()
    session.answered(77)
    session.drop("a")
    session.want("a", 5)
    assert session.ask() == (77, 1, {"a": 5}, [])


def test_a_leader_without_room_for_a_session_is_told_everything_each_time() -> None:
    session = begun(a=1)
    session.ask()
    session.answered(0)
    assert session.ask() == (0, 0, {"a": 1}, [])


def test_after_a_reset_everything_is_named_again() -> None:
    session = begun(a=1, b=2)
    session.ask()
    session.answered(77)
    session.want("a", 2)
    session.drop("b")
    session.ask()
    session.reset()
    assert session.ask() == (0, 0, {"a": 2}, [])


def test_the_leaders_side_agrees() -> None:
    """Both sides of KIP-227 are Tailrace's: what the leader remembers is what the follower wants."""
    leader = FetchSessions(10, 1000, lambda: 5)
    session: FollowerSession[tuple[str, int], int] = FollowerSession()
    before: dict[tuple[str, int], int] = {}
    for wanted in ({("t", 0): 0, ("t", 1): 0}, {("t", 0): 3, ("t", 2): 0}, {("t", 0): 3, ("t", 2): 0}, {("t", 1): 9}):
        for key, offset in wanted.items():
            session.want(key, offset)
        for key in before.keys() - wanted.keys():
            session.drop(key)
        before = wanted
        session_id, epoch, named, forgotten = session.ask()
        context = leader.begin(
            0, session_id, epoch, [FetchPartition(key, at) for key, at in named.items()], forgotten, True
        )
        assert {partition.key: partition.wanted for partition in context.partitions} == wanted
        session.answered(context.session_id)
