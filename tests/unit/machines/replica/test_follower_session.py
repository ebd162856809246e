"""A follower names only what changed since its last request."""

from runnel.machines.fetch_session import FetchPartition, FetchSessions
from runnel.machines.replica.session import FollowerSession


def test_the_first_request_names_everything_and_later_ones_what_changed() -> None:
    session: FollowerSession[str, int] = FollowerSession()
    assert session.ask({"a": 1, "b": 2}) == (0, 0, {"a": 1, "b": 2}, [])
    session.answered(77)
    assert session.ask({"a": 1, "b": 3, "c": 4}) == (77, 1, {"b": 3, "c": 4}, [])
    session.answered(77)
    assert session.ask({"c": 4}) == (77, 2, {}, ["a", "b"])


def test_a_leader_without_room_for_a_session_is_told_everything_each_time() -> None:
    session: FollowerSession[str, int] = FollowerSession()
    session.ask({"a": 1})
    session.answered(0)
    assert session.ask({"a": 1}) == (0, 0, {"a": 1}, [])


def test_after_a_reset_everything_is_named_again() -> None:
    session: FollowerSession[str, int] = FollowerSession()
    session.ask({"a": 1})
    session.answered(77)
    session.ask({"a": 2})
    session.reset()
    assert session.ask({"a": 2}) == (0, 0, {"a": 2}, [])


def test_the_leaders_side_agrees() -> None:
    """Both sides of KIP-227 are Runnel's: what the leader remembers is what the follower wants."""
    leader = FetchSessions(10, 1000, lambda: 5)
    session: FollowerSession[tuple[str, int], int] = FollowerSession()
    for wanted in ({("t", 0): 0, ("t", 1): 0}, {("t", 0): 3, ("t", 2): 0}, {("t", 0): 3, ("t", 2): 0}, {("t", 1): 9}):
        session_id, epoch, named, forgotten = session.ask(wanted)
        context = leader.begin(
            0, session_id, epoch, [FetchPartition(key, at) for key, at in named.items()], forgotten, True
        )
        assert {partition.key: partition.wanted for partition in context.partitions} == wanted
        session.answered(context.session_id)
