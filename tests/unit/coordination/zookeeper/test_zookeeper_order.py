"""What the ZooKeeper store makes of answers, events and broken connections, in every order in which they may come."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.logged import logged
from tests.unit.sample import ManualClock

from tailrace.coordination.store import Create, OutcomeUnknown, Put, SessionState

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.protocol.serialization import Transaction
from kazoo.protocol.states import ZnodeStat

from tailrace.coordination.zookeeper import zookeeper
from tailrace.coordination.zookeeper.link import OnAnswer, OnEvent, OnRefusal, OnState, ZooKeeperServers
from tailrace.coordination.zookeeper.request import AddWatch, Found, MultiRead
from tailrace.coordination.zookeeper.zookeeper import ZooKeeperStore

CONNECTED, SUSPENDED, EXPIRED = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED
TIMEOUT_MS = 1000
LEASE_MS = 980  # less than that, for clocks that run apart


class FakeLink:
    """Holds back every request until the test answers it; what it answers with is `values`."""

    session_timeout_ms = TIMEOUT_MS
    trouble = ""

    def __init__(
        self, _servers: object, clock: ManualClock, on_state: OnState, on_event: OnEvent, _on_refusal: OnRefusal
    ) -> None:
        self.clock, self.on_state, self.on_event = clock, on_state, on_event
        self.requests: list[tuple[Any, OnAnswer]] = []
        self.values: dict[str, tuple[bytes, int]] = {}
        self.arrived = asyncio.Event()
        self.connect_sent_ms = 0

    def start(self) -> None:
        """Nothing happens by itself."""

    def cut(self) -> None:
        self.on_state(SUSPENDED)

    def connect(self) -> None:
        self.connect_sent_ms = self.clock.monotonic_ms()
        self.on_state(CONNECTED)

    def send(self, request: Any, on_answer: OnAnswer) -> None:
        self.requests.append((request, on_answer))
        self.arrived.set()

    async def close(self) -> None:
        self.on_state(SUSPENDED)
        self.on_state(EXPIRED)

    async def next_request(self) -> tuple[Any, OnAnswer]:
        async with asyncio.timeout(60):
            while not self.requests:
                self.arrived.clear()
                await self.arrived.wait()
        return self.requests.pop(0)

    async def answer(self) -> object:
        """Answer the next request, and return it."""
        request, on_answer = await self.next_request()
        on_answer(self.answer_to(request), None)
        return request

    async def answer_reading_of_all(self) -> None:
        while not isinstance(await self.answer(), MultiRead):
            pass
        if self.values:
            await self.answer()

    def answer_to(self, request: Any) -> object:
        if isinstance(request, AddWatch):
            return True
        if isinstance(request, Transaction):
            return [True] * len(request.operations)
        if request._read.__name__ == "GetChildren":
            return [[path[1:] for path in self.values]]
        return [self.found(path) for path in request._paths]

    def found(self, path: str) -> object:
        if path not in self.values:
            return NoNodeError()
        value, version = self.values[path]
        return Found(value, ZnodeStat(1, 1, 0, 0, version, 0, 0, 0, len(value), 0, 1))


class World:
    """A store, its link, and all that it tells."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(zookeeper, "Link", FakeLink)
        self.clock = ManualClock()
        self.store = ZooKeeperStore(ZooKeeperServers("zk"), anchor="/anchor", clock=self.clock)
        self.link: FakeLink = self.store._link  # type: ignore[assignment]
        self.heard: list[object] = []
        self.store.watch(lambda changes: self.heard.append([change.path for change in changes]))
        self.store.on_session(self.heard.append)

    async def open(self) -> None:
        opening = asyncio.ensure_future(self.store.open(10_000))
        await asyncio.sleep(0)
        self.link.connect()
        await self.link.answer_reading_of_all()
        await opening
        self.heard.clear()


async def idle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def make_world(monkeypatch: pytest.MonkeyPatch) -> Callable[[], World]:
    return lambda: World(monkeypatch)


async def test_a_commit_is_done_when_its_change_has_been_told(make_world: Callable[[], World]) -> None:
    world = make_world()
    await world.open()
    commit = asyncio.ensure_future(world.store.commit([Create("/a", b""), Create("/b", b"")]))
    _, on_answer = await world.link.next_request()
    world.link.values = {"/a": (b"", 0), "/b": (b"", 0)}
    world.link.on_event("/other")
    world.link.on_event("/a")
    await world.link.answer()
    await idle()
    assert (world.heard, world.link.requests) == ([], []), "half of a group of ours is not told"
    world.link.on_event("/b")
    on_answer(["/a", "/b"], None)
    await idle()
    assert not commit.done()
    await world.link.answer()
    await commit
    assert world.heard == [["/a", "/b"]]
    await world.store.close()


async def test_a_connection_that_breaks_when_all_is_read_is_not_taken_for_one(make_world: Callable[[], World]) -> None:
    """The last answer and the end of the connection may come in one turn of the event loop."""
    world = make_world()
    await world.open()
    world.link.on_state(SUSPENDED)
    world.link.values = {"/a": (b"", 0)}
    world.link.connect()
    while not (isinstance(request := await world.link.answer(), MultiRead) and request._paths == ["/"]):
        pass
    await world.link.answer()
    world.link.on_state(SUSPENDED)
    await idle()
    assert world.store.session_state is SUSPENDED
    assert world.heard == [SUSPENDED, ["/a"]]
    world.link.connect()
    await world.link.answer_reading_of_all()
    await idle()
    assert world.heard == [SUSPENDED, ["/a"], CONNECTED]
    await world.store.close()


async def test_reading_that_fails_begins_again_with_the_next_connection(make_world: Callable[[], World]) -> None:
    world = make_world()
    await world.open()
    world.link.on_state(SUSPENDED)
    world.link.connect()
    await world.link.answer()
    _, on_answer = await world.link.next_request()
    on_answer(None, ConnectionLoss())
    world.link.on_state(SUSPENDED)
    world.link.values = {"/a": (b"", 0)}
    world.link.connect()
    await world.link.answer_reading_of_all()
    await idle()
    assert world.heard == [SUSPENDED, ["/a"], CONNECTED]
    await world.store.close()


@pytest.mark.parametrize("error", [ConnectionLoss(), ValueError("no sense")], ids=repr)
async def test_who_is_in_doubt_is_not_connected(make_world: Callable[[], World], error: Exception) -> None:
    """The commit failed before the link told that it was broken. Its maker waited for a connection, was told that there
    was one, and looked at a tree that was not read again yet."""
    world = make_world()
    await world.open()
    commit = asyncio.ensure_future(world.store.commit([Create("/a", b"")]))
    _, on_answer = await world.link.next_request()
    on_answer(None, error)
    with pytest.raises(OutcomeUnknown):
        await commit
    waiting = asyncio.ensure_future(world.store.wait_connected())
    await idle()
    assert not waiting.done()
    world.link.on_state(SUSPENDED)
    world.link.values = {"/a": (b"", 0)}
    world.link.connect()
    await world.link.answer_reading_of_all()
    await waiting
    assert await world.store.get("/a") is not None
    await world.store.close()


async def test_an_answer_that_makes_no_sense_breaks_the_connection(make_world: Callable[[], World]) -> None:
    world = make_world()
    await world.open()
    world.link.on_event("/a")
    _, on_answer = await world.link.next_request()
    on_answer(None, ValueError("no sense"))
    await idle()
    assert world.heard == [SUSPENDED]
    world.link.values = {"/a": (b"", 0)}
    world.link.connect()
    await world.link.answer_reading_of_all()
    await idle()
    assert world.heard == [SUSPENDED, ["/a"], CONNECTED]
    await world.store.close()


@pytest.mark.parametrize("found", [{}, {"/anchor": (b"theirs", 0), "/a": (b"", 0)}], ids=["empty", "another"])
async def test_a_zookeeper_that_is_not_ours_is_not_believed(
    make_world: Callable[[], World], found: dict[str, tuple[bytes, int]], caplog: pytest.LogCaptureFixture
) -> None:
    """Servers that had lost their data would have taken every topic with them."""
    world = make_world()
    ours = world.link.values = {"/anchor": (b"ours", 0), "/a": (b"", 0)}
    await world.open()
    world.link.on_state(SUSPENDED)
    world.link.values = found
    world.link.connect()
    await world.link.answer_reading_of_all()
    await idle()
    assert world.heard == [SUSPENDED]
    assert world.store.lease_until_ms() < world.clock.time_ms
    assert "no longer holds /anchor" in logged(caplog)
    world.link.on_state(SUSPENDED)
    world.link.values = ours
    world.link.connect()
    await world.link.answer_reading_of_all()
    await idle()
    assert world.heard == [SUSPENDED, CONNECTED]
    assert world.store.lease_until_ms() > world.clock.time_ms
    await world.store.close()


async def test_the_lease_of_a_new_session_begins_when_everybody_knows(make_world: Callable[[], World]) -> None:
    world = make_world()
    await world.open()
    assert world.store.lease_until_ms() == world.clock.time_ms + LEASE_MS
    world.link.on_state(SUSPENDED)
    assert world.store.lease_until_ms() == world.clock.time_ms + LEASE_MS
    world.clock.time_ms += 5 * TIMEOUT_MS
    world.link.on_state(EXPIRED)
    world.link.connect()
    await idle()
    assert world.store.lease_until_ms() < world.clock.time_ms
    await world.link.answer_reading_of_all()
    await idle()
    assert world.store.session_state is CONNECTED
    assert world.store.lease_until_ms() == world.clock.time_ms + LEASE_MS
    await world.store.close()


async def test_a_session_that_is_found_again_is_leased_at_once(make_world: Callable[[], World]) -> None:
    world = make_world()
    await world.open()
    world.link.on_state(SUSPENDED)
    world.clock.time_ms += TIMEOUT_MS // 2
    world.link.connect()
    assert world.store.lease_until_ms() == world.clock.time_ms + LEASE_MS
    await world.store.close()


async def test_a_success_that_cannot_be_told_is_in_doubt(make_world: Callable[[], World]) -> None:
    world = make_world()
    world.link.values = {"/a": (b"", 0)}
    await world.open()
    commit = asyncio.ensure_future(world.store.commit([Put("/a", b"1", 0)]))
    _, on_answer = await world.link.next_request()
    world.link.on_event("/a")
    on_answer([True], None)
    _, on_read = await world.link.next_request()
    on_read(None, ConnectionLoss())
    world.link.on_state(SUSPENDED)
    with pytest.raises(OutcomeUnknown):
        await commit
    world.link.values = {"/a": (b"1", 1)}
    world.link.connect()
    await world.link.answer_reading_of_all()
    await idle()
    assert world.heard == [SUSPENDED, ["/a"], CONNECTED]
    await world.store.close()


async def test_an_answer_that_comes_after_the_end_of_its_connection_changes_nothing(
    make_world: Callable[[], World],
) -> None:
    world = make_world()
    await world.open()
    commit = asyncio.ensure_future(world.store.commit([Create("/a", b"")]))
    _, on_answer = await world.link.next_request()
    world.link.on_state(EXPIRED)
    on_answer(None, ConnectionLoss())
    on_answer(["/a"], None)
    with pytest.raises(OutcomeUnknown):
        await commit
    await world.store.close()


async def test_nobody_hears_of_a_session_that_its_owner_ends(make_world: Callable[[], World]) -> None:
    world = make_world()
    await world.open()
    await world.store.close()
    assert world.heard == []
    assert world.store.lease_until_ms() < world.clock.time_ms


async def test_a_store_whose_watcher_fails_gives_up_its_lease(
    make_world: Callable[[], World], caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    await world.open()

    def fail(_: object) -> None:
        raise ValueError("a bug")

    world.store.watch(fail)
    world.link.values = {"/a": (b"", 0)}
    world.link.on_event("/a")
    await world.link.answer()
    await idle()
    assert world.store.lease_until_ms() < world.clock.time_ms
    assert world.heard[-1] is SUSPENDED
    assert "the ZooKeeper store failed" in logged(caplog)
    await world.store.close()
