"""A real ZooKeeper, and what goes wrong with it and on the way to it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import pytest
from tests.port import free_port
from tests.unit.coordination.tcp_proxy import TcpProxy
from tests.unit.coordination.zookeeper_process import ZooKeeperProcess, require_zookeeper

from tailrace.base.clock import SystemClock
from tailrace.coordination.store import (
    Change,
    CommitTooLargeError,
    Create,
    Delete,
    NotConnectedError,
    Operation,
    OutcomeUnknown,
    Put,
    SessionState,
    StoreUnreachableError,
)

pytest.importorskip("kazoo", reason="kazoo is not installed")

from kazoo.client import KazooClient

from tailrace.coordination.zookeeper.link import ZooKeeperServers
from tailrace.coordination.zookeeper.zookeeper import ZooKeeperStore

pytestmark = pytest.mark.slow

CONNECTED, SUSPENDED, EXPIRED = SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED
WAIT_S = 60
SESSION_TIMEOUT_MS = 60_000  # longer than any pause of a busy machine
SHORT_SESSION_TIMEOUT_MS = 4000  # for a session whose end is waited for


@pytest.fixture(scope="module")
def own_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A server that these tests may stop and kill."""
    require_zookeeper()
    server = ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def root() -> str:
    return f"/{uuid4().hex}"


class Witness:
    """All that a store tells, in order."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self.heard: list[SessionState | Change] = []
        self._moved = asyncio.Event()
        store.watch(lambda changes: self._hear(*changes))
        store.on_session(self._hear)

    def _hear(self, *heard: SessionState | Change) -> None:
        self.heard += heard
        self._moved.set()

    @property
    def changes(self) -> list[Change]:
        """Return the changes of nodes; fail if the store has told of its session, too."""
        changes = [each for each in self.heard if isinstance(each, Change)]
        assert len(changes) == len(self.heard)
        return changes

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._moved.clear()
                await self._moved.wait()

    async def hears(self, *expected: SessionState | str) -> None:
        """Wait until this came, a change by its path, and forget it."""
        await self.until(lambda: len(self.heard) >= len(expected))
        assert [each.path if isinstance(each, Change) else each for each in self.heard] == list(expected)
        self.heard.clear()


@asynccontextmanager
async def opened(
    address: str, root: str, session_timeout_ms: int = SESSION_TIMEOUT_MS
) -> AsyncIterator[ZooKeeperStore]:
    store = ZooKeeperStore(ZooKeeperServers(address, session_timeout_ms), root=root)
    await store.open(60_000)
    try:
        yield store
    finally:
        await store.close()


def ephemeral(path: str, value: bytes = b"") -> Create:
    return Create(path, value, is_ephemeral=True)


def end_session(store: ZooKeeperStore) -> None:
    """Close the session by its id and password, as an operator could."""
    other = KazooClient(store._link._client.hosts[0][0] + ":" + str(store._link._client.hosts[0][1]))
    other._session_id, other._session_passwd = store._link._client.client_id
    other.start()
    other.stop()
    other.close()


# --- several sessions


async def test_sessions_hear_of_each_other_and_of_their_ends(zookeeper: ZooKeeperProcess, root: str) -> None:
    async with opened(zookeeper.address, root) as mine:
        witness = Witness(mine)
        async with opened(zookeeper.address, root) as theirs:
            await theirs.commit([Create("/t", b""), Create("/t/p/0/s", b"0"), ephemeral("/e"), ephemeral("/f")])
            await theirs.commit([Put("/t/p/0/s", b"1", 0)])
            await mine.commit([ephemeral("/mine"), Put("/f", b"not mine all the same", 0)])
            await theirs.commit([])
            assert {change.path for change in witness.changes} == {"/t", "/t/p/0/s", "/e", "/f", "/mine"}
            assert await mine.tree("/") == await theirs.tree("/")
            witness.heard.clear()
        await witness.until(lambda: len(witness.heard) == 2)
        assert {*witness.heard} == {Change("/e", None), Change("/f", None)}
        assert list(await mine.tree("/")) == ["/mine", "/t", "/t/p/0/s"]


async def test_two_who_want_the_same_never_both_get_it(zookeeper: ZooKeeperProcess, root: str) -> None:
    async with opened(zookeeper.address, root) as one, opened(zookeeper.address, root) as other:
        commits = [store.commit([Create(f"/a/b{turn}/c", b"")]) for turn in range(20) for store in (one, other)]
        results = await asyncio.gather(*commits, return_exceptions=True)
        for first, second in zip(results[::2], results[1::2], strict=True):
            assert [first, second].count(None) == 1
        await one.commit([])
        assert len(await one.tree("/")) == 20


async def test_a_node_whose_empty_places_others_fill_is_not_removed(zookeeper: ZooKeeperProcess, root: str) -> None:
    async with opened(zookeeper.address, root) as one, opened(zookeeper.address, root) as other:
        for turn in range(10):
            await one.commit([Create("/t", b""), Create("/t/p/s", b"")])
            await one.commit([Delete("/t/p/s", 0)])
            await other.wait_connected()
            results = await asyncio.gather(
                one.commit([Delete("/t", 0)]), other.commit([Create(f"/t/p/q{turn}", b"")]), return_exceptions=True
            )
            await one.commit([])
            left = await one.tree("/")
            # The one that came second found other places than it had planned with, and was refused or planned again.
            assert results[1] is None, results
            assert ("/t" in left) == (results[0] is not None)
            await one.commit([Delete(path, 0) for path in sorted(left, reverse=True)])


async def test_what_the_loop_is_told_of_starts_where_the_tree_was_read(zookeeper: ZooKeeperProcess, root: str) -> None:
    async with opened(zookeeper.address, root) as writer:
        await writer.commit([Create("/n", b"0")])
        writing = asyncio.ensure_future(count_up(writer, 200))
        async with opened(zookeeper.address, root) as reader:
            (node,) = (await reader.tree("/")).values()
            witness = Witness(reader)
            await writing
            await reader.commit([])
            versions = [node.version, *(change.node.version for change in witness.changes if change.node)]
            assert versions == sorted(set(versions))
            assert versions[-1] == 200


async def count_up(store: ZooKeeperStore, count: int) -> None:
    for number in range(count):
        await store.commit([Put("/n", b"%d" % number, number)])


async def test_a_commit_that_the_servers_would_not_take_is_refused_before_it_is_sent(
    zookeeper: ZooKeeperProcess, root: str
) -> None:
    """ZooKeeper would drop the connection, and the next one would meet the same commit again."""
    async with opened(zookeeper.address, root) as store:
        witness = Witness(store)
        with pytest.raises(CommitTooLargeError, match=r"the commit of 21 requests has .* bytes"):
            await store.commit([Create("/a", b""), *(Create(f"/{number}", b"x" * 52_000) for number in range(20))])
        await store.commit([Create("/a", b"x" * 1_000_000)])
        await witness.hears("/a")


# --- connections and sessions that end


async def test_who_was_cut_off_for_a_moment_keeps_its_session_and_learns_what_it_missed(
    zookeeper: ZooKeeperProcess, root: str
) -> None:
    async with TcpProxy(zookeeper.address).listening() as proxy:
        async with opened(proxy.address, root) as mine, opened(zookeeper.address, root) as theirs:
            await mine.commit([ephemeral("/e"), Create("/gone", b""), Create("/gone/p/s", b""), Create("/again", b"")])
            witness = Witness(mine)
            proxy.cut()
            await witness.hears(SUSPENDED)
            with pytest.raises(NotConnectedError):
                await mine.commit([Create("/b", b"")])
            changes: list[Operation] = [Delete("/gone/p/s", 0), Delete("/gone", 0), Create("/new", b"")]
            await theirs.commit([*changes, Create("/new/below", b""), Delete("/again", 0), Create("/again", b"")])
            proxy.mend()
            await witness.hears("/gone/p/s", "/gone", "/again", "/new", "/new/below", CONNECTED)
            assert await mine.tree("/") == await theirs.tree("/")
            assert await mine.get("/e") is not None


async def test_an_ended_session_is_followed_by_another_one(zookeeper: ZooKeeperProcess, root: str) -> None:
    async with opened(zookeeper.address, root) as mine:
        await mine.commit([ephemeral("/e"), Create("/a", b"")])
        witness = Witness(mine)
        while EXPIRED not in witness.heard:  # the store may take its session back before the other client closes it
            witness.heard.clear()
            await asyncio.to_thread(end_session, mine)
            await witness.until(lambda: witness.heard[-1:] == [CONNECTED])
        told = [each.path if isinstance(each, Change) else each for each in witness.heard]
        assert told in ([SUSPENDED, EXPIRED, "/e", CONNECTED], ["/e", SUSPENDED, EXPIRED, CONNECTED])
        await mine.commit([ephemeral("/e")])
        assert list(await mine.tree("/")) == ["/a", "/e"]
        assert mine.lease_until_ms() > SystemClock().monotonic_ms()


async def cut_during_a_lease(proxy: TcpProxy, mine: ZooKeeperStore, clock: SystemClock) -> None:
    """Write `/e` in a session, and cut its connection while its lease lasts, once that was renewed.

    A busy machine may let the session end before that. The store then has another one, in which this begins again.
    """
    async with asyncio.timeout(WAIT_S):
        while True:
            witness = Witness(mine)
            await mine.wait_connected()
            with suppress(NotConnectedError, OutcomeUnknown):
                await mine.commit([ephemeral("/e")])
                renewed = mine.lease_until_ms()
                while mine.lease_until_ms() <= max(renewed, clock.monotonic_ms()) and EXPIRED not in witness.heard:
                    await asyncio.sleep(0.01)
                if EXPIRED not in witness.heard:
                    proxy.cut()
                    return


async def test_a_lease_is_over_before_others_see_the_session_end(zookeeper: ZooKeeperProcess, root: str) -> None:
    clock = SystemClock()
    async with TcpProxy(zookeeper.address).listening() as proxy:
        async with (
            opened(proxy.address, root, SHORT_SESSION_TIMEOUT_MS) as mine,
            opened(zookeeper.address, root) as theirs,
        ):
            await cut_during_a_lease(proxy, mine, clock)
            async with asyncio.timeout(WAIT_S):
                while await theirs.get("/e") is not None:
                    await asyncio.sleep(0.01)
            assert mine.lease_until_ms() < clock.monotonic_ms()
            mended = Witness(mine)
            proxy.mend()
            await mended.until(lambda: mended.heard[-1:] == [CONNECTED])
            assert EXPIRED in mended.heard


# --- commits in doubt


@pytest.mark.parametrize("is_done", [True, False], ids=["done", "lost"])
async def test_a_commit_without_an_answer_is_cleared_up_by_the_next_connection(
    zookeeper: ZooKeeperProcess, root: str, is_done: bool
) -> None:
    async with TcpProxy(zookeeper.address).listening() as proxy:
        async with opened(proxy.address, root) as mine, opened(zookeeper.address, root) as theirs:
            witness, done = Witness(mine), Witness(theirs)
            proxy.passes_answers, proxy.passes_requests = not is_done, is_done
            commit = asyncio.ensure_future(mine.commit([Create("/a", b"")]))
            if is_done:
                await done.hears("/a")
            else:
                await asyncio.wait_for(proxy.swallowed.wait(), WAIT_S)
            proxy.cut()
            with pytest.raises(OutcomeUnknown) as caught:
                await commit
            assert type(caught.value) is OutcomeUnknown
            proxy.mend()
            await mine.wait_connected()
            assert list(await mine.tree("/")) == (["/a"] if is_done else [])
            await witness.hears(SUSPENDED, *(["/a"] if is_done else []), CONNECTED)


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"\0\0\0\x10" + bytes(16), id="another answer"),
        pytest.param(b"\0\0\0\1\0", id="too short"),
        pytest.param(b"\0\0\0\x14" + b"\xff" * 20, id="half an event"),
        pytest.param(b"\xff" * 400, id="nothing of the kind"),
    ],
)
async def test_garbage_on_the_line_costs_the_connection_and_nothing_more(
    zookeeper: ZooKeeperProcess, root: str, garbage: bytes
) -> None:
    """kazoo ended its thread over an answer that it could not place, and the store stayed without a connection."""
    async with TcpProxy(zookeeper.address).listening() as proxy:
        async with opened(proxy.address, root) as mine:
            proxy.garbage = garbage
            with pytest.raises(OutcomeUnknown):
                await mine.commit([Create("/a", b"")])
            await asyncio.wait_for(mine.wait_connected(), WAIT_S)
            await mine.commit([])
            assert list(await mine.tree("/")) == ["/a"]


# --- servers that go


async def test_a_killed_server_that_comes_back_finds_the_session_again(
    own_zookeeper: ZooKeeperProcess, root: str
) -> None:
    async with opened(own_zookeeper.address, root) as mine:
        await mine.commit([ephemeral("/e"), Create("/a", b"1")])
        before = await mine.tree("/")
        witness = Witness(mine)
        await asyncio.to_thread(own_zookeeper.kill)
        await witness.hears(SUSPENDED)
        await asyncio.to_thread(own_zookeeper.start)
        await witness.hears(CONNECTED)
        assert await mine.tree("/") == before
        await mine.commit([Put("/a", b"2", 0)])


async def test_a_stalled_server_renews_nothing_and_delays_everything(
    own_zookeeper: ZooKeeperProcess, root: str
) -> None:
    async with opened(own_zookeeper.address, root) as mine:
        own_zookeeper.pause()
        paused_ms = SystemClock().monotonic_ms()
        try:
            commit = asyncio.ensure_future(mine.commit([Create("/a", b"")]))
            mine._link.send(mine._nothing(), lambda *_: None)
            assert not (await asyncio.wait([commit], timeout=0.3))[0]
            assert mine.lease_until_ms() <= paused_ms + SESSION_TIMEOUT_MS
        finally:
            own_zookeeper.resume()
        await commit
        assert await mine.get("/a") is not None


async def test_a_store_closes_though_nobody_answers(own_zookeeper: ZooKeeperProcess, root: str) -> None:
    store = ZooKeeperStore(ZooKeeperServers(own_zookeeper.address, SESSION_TIMEOUT_MS), root=root)
    await store.open(60_000)
    own_zookeeper.pause()
    try:
        async with asyncio.timeout(60):
            await store.close()
    finally:
        own_zookeeper.resume()
    with pytest.raises(NotConnectedError):
        await store.commit([Create("/a", b"")])


async def test_without_a_server_the_error_says_what_was_tried() -> None:
    address = f"127.0.0.1:{free_port()}"
    store = ZooKeeperStore(ZooKeeperServers(address, 1000))
    for timeout_ms in (1000, 4000, 16_000, 60_000):  # on a busy machine the first attempt may come late
        with pytest.raises(StoreUnreachableError, match=f"did not answer within {timeout_ms} ms") as caught:
            await store.open(timeout_ms)
        if "refused" in str(caught.value).lower():
            return
    pytest.fail(str(caught.value))
