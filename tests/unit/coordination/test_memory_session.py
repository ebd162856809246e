"""Several sessions with one tree in memory, and what can go wrong between them and it."""

import asyncio
from math import inf

import pytest
from tests.settled import settled
from tests.unit.sample import ManualClock

from tailrace.coordination.memory import MemoryStore, MemoryTree
from tailrace.coordination.store import (
    BadVersionError,
    Change,
    CommitTooLargeError,
    Create,
    Delete,
    Node,
    NotConnectedError,
    OutcomeUnknown,
    Put,
    SessionState,
)

CONNECTED, SUSPENDED, EXPIRED = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED


class Witness:
    """All that a store tells, in order."""

    def __init__(self, store: MemoryStore) -> None:
        self.heard: list[SessionState | list[Change]] = []
        store.watch(lambda changes: self.heard.append(list(changes)))
        store.on_session(self.heard.append)

    def take(self) -> list[SessionState | list[Change]]:
        heard = list(self.heard)
        self.heard.clear()
        return heard


def ephemeral(path: str, value: bytes = b"") -> Create:
    return Create(path, value, is_ephemeral=True)


async def test_sessions_hear_of_each_other() -> None:
    tree = MemoryTree()
    mine, theirs = MemoryStore(tree), MemoryStore(tree)
    witness = Witness(mine)
    await theirs.commit([Create("/a", b"1")])
    assert witness.take() == [[Change("/a", Node(b"1", 0, 1))]]
    assert await mine.tree("/") == tree.nodes


async def test_ephemeral_nodes_go_when_their_session_is_closed_and_others_stay() -> None:
    tree = MemoryTree()
    mine, theirs = MemoryStore(tree), MemoryStore(tree)
    await theirs.commit([Create("/a", b""), ephemeral("/e"), ephemeral("/f")])
    await mine.commit([ephemeral("/mine"), Put("/e", b"not mine all the same", 0), Delete("/f", 0)])
    await mine.commit([ephemeral("/f")])
    witness = Witness(mine)
    await theirs.close()
    assert witness.take() == [[Change("/e", None)]]
    assert list(tree.nodes) == ["/a", "/mine", "/f"]


async def test_a_session_that_comes_back_in_time_keeps_what_is_its_own_and_learns_what_it_missed() -> None:
    tree = MemoryTree()
    mine, theirs = MemoryStore(tree), MemoryStore(tree)
    await mine.commit([ephemeral("/e"), Create("/gone", b""), Create("/gone/below", b""), Create("/again", b"")])
    witness = Witness(mine)
    mine.suspend()
    await theirs.commit([Delete("/gone/below", 0), Delete("/gone", 0), Create("/new", b""), Create("/new/below", b"")])
    await theirs.commit([Delete("/again", 0), Create("/flash", b"")])
    await theirs.commit([Delete("/flash", 0), Create("/again", b"")])
    assert witness.take() == [SUSPENDED]
    assert await mine.get("/gone") is not None
    with pytest.raises(NotConnectedError):
        await mine.commit([Create("/b", b"")])
    mine.resume()
    changes = [Change("/gone/below", None), Change("/gone", None)]
    changes += [Change(path, tree.nodes[path]) for path in ("/again", "/new", "/new/below")]
    assert witness.take() == [changes, CONNECTED]
    assert await mine.tree("/") == dict(sorted(tree.nodes.items()))
    assert "/e" in tree.nodes


async def test_an_expired_session_loses_its_nodes_before_another_one_begins() -> None:
    tree = MemoryTree()
    mine, theirs = MemoryStore(tree), MemoryStore(tree)
    await mine.commit([ephemeral("/e")])
    witness, other = Witness(mine), Witness(theirs)
    mine.expire()
    assert witness.take() == [EXPIRED, [Change("/e", None)], CONNECTED]
    assert other.take() == [[Change("/e", None)]]
    await mine.commit([ephemeral("/e")])
    assert witness.take() == [[Change("/e", Node(b"", 0, 2))]]


async def test_who_cannot_hear_learns_of_the_end_when_it_connects_again() -> None:
    tree = MemoryTree()
    mine, theirs = MemoryStore(tree), MemoryStore(tree)
    await mine.commit([ephemeral("/e", b"old")])
    witness = Witness(mine)
    mine.suspend()
    mine.expire()
    assert "/e" not in tree.nodes
    await theirs.commit([ephemeral("/e", b"new")])
    assert witness.take() == [SUSPENDED]
    mine.resume()
    assert witness.take() == [EXPIRED, [Change("/e", Node(b"new", 0, 2))], CONNECTED]


async def test_a_lost_answer_leaves_its_maker_in_doubt_until_it_is_connected_again() -> None:
    mine = MemoryStore()
    witness = Witness(mine)
    mine.lose_next_answer()
    with pytest.raises(OutcomeUnknown) as caught:
        await mine.commit([Create("/a", b"")])
    assert not isinstance(caught.value, NotConnectedError)
    assert await mine.get("/a") is None
    waiting = asyncio.ensure_future(mine.wait_connected())
    await settled()
    assert not waiting.done()
    mine.resume()
    await waiting
    assert witness.take() == [SUSPENDED, [Change("/a", Node(b"", 0, 1))], CONNECTED]
    assert await mine.get("/a") == Node(b"", 0, 1)


async def test_news_that_is_held_comes_group_by_group_and_before_any_answer() -> None:
    tree = MemoryTree()
    mine, theirs = MemoryStore(tree), MemoryStore(tree)
    await theirs.commit([Create("/a", b"0")])
    mine.hold_news()
    witness = Witness(mine)
    for number in range(1, 6):
        await theirs.commit([Put("/a", b"%d" % number, number - 1)])
    assert await mine.get("/a") == Node(b"0", 0, 1)
    mine.release_news(2)
    assert await mine.get("/a") == Node(b"2", 2, 1)
    with pytest.raises(BadVersionError):
        await mine.commit([Put("/a", b"mine", 2)])
    assert await mine.get("/a") == Node(b"5", 5, 1), "a refusal brings the reason with it"
    await theirs.commit([Put("/a", b"6", 5)])
    mine.release_news()
    await theirs.commit([Put("/a", b"7", 6)])
    heard = witness.take()
    assert heard == [[Change("/a", Node(b"%d" % version, version, 1))] for version in range(1, 8)]


async def test_a_stalled_connection_answers_and_tells_nothing_until_it_moves_again() -> None:
    tree = MemoryTree()
    mine, theirs = MemoryStore(tree), MemoryStore(tree)
    witness = Witness(mine)
    mine.stall()
    commit = asyncio.ensure_future(mine.commit([Create("/a", b"")]))
    await theirs.commit([Create("/b", b"")])
    await settled()
    assert (commit.done(), witness.take(), mine.session_state) == (False, [], CONNECTED)
    mine.resume()
    await commit
    assert [change.path for group in witness.take() if isinstance(group, list) for change in group] == ["/b", "/a"]


@pytest.mark.parametrize("end", [MemoryStore.suspend, MemoryStore.expire])
async def test_a_stall_that_ends_badly_ends_the_commits_in_it(end: object) -> None:
    mine = MemoryStore()
    mine.stall()
    commit = asyncio.ensure_future(mine.commit([Create("/a", b"")]))
    await settled()
    end(mine)  # type: ignore[operator]
    mine.resume()
    with pytest.raises(OutcomeUnknown):
        await commit
    assert mine.session_state is CONNECTED
    assert await mine.tree("/") == {}


async def test_a_connection_may_break_on_the_way_there_or_back() -> None:
    failed, unknown = NotConnectedError, OutcomeUnknown
    assert [await broken_at(turn) for turn in range(1, 5)] == [
        ([failed, failed], []),
        ([unknown, failed], ["/a"]),
        ([type(None), failed], ["/a"]),
        ([type(None), unknown], ["/a", "/b"]),
    ]


async def broken_at(turn: int) -> tuple[list[type], list[str]]:
    """Two commits, and a connection that breaks at this pause of theirs."""
    turns = 0

    async def pause() -> None:
        nonlocal turns
        turns += 1
        if turns == turn:
            mine.suspend()

    mine = MemoryStore(tree := MemoryTree(), pause=pause)
    commits = mine.commit([Create("/a", b"")]), mine.commit([Create("/b", b"")])
    results = await asyncio.gather(*commits, return_exceptions=True)
    return [type(result) for result in results], list(tree.nodes)


async def test_a_lease_is_renewed_while_the_session_is_heard_of() -> None:
    clock = ManualClock()
    clock.time_ms = 1000
    mine = MemoryStore(MemoryTree(), clock, session_timeout_ms=100)
    clock.time_ms = 1050
    assert mine.lease_until_ms() == 1150
    mine.stall()
    clock.time_ms = 1090
    mine.suspend()
    assert mine.lease_until_ms() == 1150
    clock.time_ms = 1200
    assert mine.lease_until_ms() == 1150
    mine.resume()
    assert mine.lease_until_ms() == 1300
    assert MemoryStore().lease_until_ms() == inf


async def test_a_tree_may_refuse_large_commits() -> None:
    mine = MemoryStore(MemoryTree(commit_bytes_max=100))
    await mine.commit([Create("/a", b"x" * 98)])
    with pytest.raises(CommitTooLargeError):
        await mine.commit([Create("/b", b"x" * 90), Create("/c", b"x" * 7)])
