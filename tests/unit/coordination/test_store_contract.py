"""What every metadata store promises, whatever it is made of."""

import asyncio
import gc
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.logged import own_records
from tests.unit.coordination.zookeeper_process import ZooKeeperProcess

from tailrace.base.clock import SystemClock
from tailrace.coordination.embedded import EmbeddedStore
from tailrace.coordination.memory import MemoryStore
from tailrace.coordination.store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    EphemeralParentError,
    MetadataStore,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Put,
    SessionState,
)

OpenStore = Callable[[], AbstractAsyncContextManager[MetadataStore]]


@pytest.fixture(params=["embedded", "memory", "zookeeper"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    zookeeper = request.getfixturevalue("zookeeper") if request.param == "zookeeper" else None

    @asynccontextmanager
    async def opened() -> AsyncIterator[MetadataStore]:
        store: MetadataStore
        if zookeeper is not None:
            store = await open_zookeeper(zookeeper)
        else:
            store = EmbeddedStore(tmp_path / "metadata.sqlite") if request.param == "embedded" else MemoryStore()
        try:
            yield store
        finally:
            await store.close()

    return opened


async def open_zookeeper(server: ZooKeeperProcess) -> MetadataStore:
    from tailrace.coordination.zookeeper.link import ZooKeeperServers
    from tailrace.coordination.zookeeper.zookeeper import ZooKeeperStore

    store = ZooKeeperStore(ZooKeeperServers(server.address), root=f"/{uuid4().hex}")
    await store.open(10_000)
    return store


Seen = tuple[bytes, int] | None
"""A node without the number of the transaction that created it, which differs from store to store."""


def seen(node: Node | None) -> Seen:
    return node and (node.value, node.version)


async def seen_at(store: MetadataStore, path: str) -> Seen:
    return seen(await store.get(path))


async def seen_below(store: MetadataStore, path: str) -> dict[str, Seen]:
    return {name: seen(node) for name, node in (await store.tree(path)).items()}


def told(store: MetadataStore) -> list[list[tuple[str, Seen]]]:
    """The groups of changes that a watcher hears of from now on."""
    groups: list[list[tuple[str, Seen]]] = []
    store.watch(lambda changes: groups.append([(path, seen(node)) for path, node in changes]))
    return groups


# --- one operation


async def test_a_new_node_has_version_zero_and_each_write_counts(open_store: OpenStore) -> None:
    async with open_store() as store:
        assert await store.get("/a") is None
        await store.commit([Create("/a", b"one")])
        assert await seen_at(store, "/a") == (b"one", 0)
        await store.commit([Put("/a", b"two", 0)])
        await store.commit([Put("/a", b"two", 1)])
        assert await seen_at(store, "/a") == (b"two", 2)


async def test_a_node_is_created_once(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.commit([Create("/a", b"one")])
        with pytest.raises(NodeExistsError, match="/a"):
            await store.commit([Create("/a", b"two")])
        assert await seen_at(store, "/a") == (b"one", 0)


@pytest.mark.parametrize("operation", [Put("/a", b"", 0), Put("/a", b"", ANY_VERSION), Delete("/a", 0), Check("/a", 0)])
async def test_what_is_not_there_cannot_be_written_deleted_or_checked(
    open_store: OpenStore, operation: Operation
) -> None:
    async with open_store() as store:
        with pytest.raises(NoNodeError, match="/a"):
            await store.commit([operation])
        assert await store.get("/a") is None


@pytest.mark.parametrize("version", [0, 2, -2])
@pytest.mark.parametrize("make", [lambda v: Put("/a", b"mine", v), lambda v: Delete("/a", v), lambda v: Check("/a", v)])
async def test_who_saw_another_version_is_refused(
    open_store: OpenStore, make: Callable[[int], Operation], version: int
) -> None:
    async with open_store() as store:
        await store.commit([Create("/a", b"one"), Put("/a", b"theirs", 0)])
        with pytest.raises(BadVersionError, match="/a"):
            await store.commit([make(version)])
        assert await seen_at(store, "/a") == (b"theirs", 1)


async def test_any_version_skips_the_check(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.commit([Create("/a", b"one"), Put("/a", b"two", ANY_VERSION), Check("/a", ANY_VERSION)])
        assert await seen_at(store, "/a") == (b"two", 1)
        await store.commit([Delete("/a", ANY_VERSION)])
        assert await store.get("/a") is None


async def test_a_node_that_comes_back_starts_again_at_zero(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.commit([Create("/a", b"one"), Put("/a", b"two", 0), Delete("/a", 1)])
        await store.commit([Create("/a", b"three")])
        assert await seen_at(store, "/a") == (b"three", 0)


@pytest.mark.parametrize("value", [b"", b"\0\xff", b"x" * 1_000_000], ids=["empty", "binary", "large"])
async def test_a_value_is_bytes_and_nothing_else(open_store: OpenStore, value: bytes) -> None:
    async with open_store() as store:
        await store.commit([Create("/a", value)])
        assert await seen_at(store, "/a") == (value, 0)


async def test_a_node_is_younger_than_all_that_were_created_before_it(open_store: OpenStore) -> None:
    async with open_store() as store:
        numbers = []
        for group in ([Create("/a", b""), Create("/b", b"")], [Put("/a", b"", 0)], [Delete("/a", 1)]):
            await store.commit(group)
            numbers += [node.created for node in (await store.tree("/")).values()]
        await store.commit([Create("/a", b""), Put("/a", b"", 0)])
        await store.commit([Delete("/b", 0), Create("/b", b"")])
        a, b, a_later, b_later, b_alone = numbers
        assert a == b == a_later == b_later == b_alone
        assert [node.created > a for node in (await store.tree("/")).values()] == [True, True]
        again = await store.tree("/")
        assert again["/b"].created > again["/a"].created


# --- groups


async def test_operations_of_a_group_see_each_other(open_store: OpenStore) -> None:
    async with open_store() as store:
        groups = told(store)
        await store.commit([Create("/c", b"")])
        await store.commit(
            [
                *(Create("/a", b"1"), Put("/a", b"2", 0), Check("/a", 1)),
                *(Create("/b", b""), Delete("/b", 0)),
                *(Put("/c", b"x", 0), Delete("/c", 1), Create("/c", b"new")),
            ]
        )
        assert await seen_below(store, "/") == {"/a": (b"2", 1), "/c": (b"new", 0)}
        assert groups == [[("/c", (b"", 0))], [("/a", (b"2", 1)), ("/c", (b"new", 0))]]


@pytest.mark.parametrize(
    ("last", "error"),
    [
        (Create("/b", b""), NodeExistsError),
        (Put("/none", b"", 0), NoNodeError),
        (Delete("/b", 7), BadVersionError),
        (Check("/b", 7), BadVersionError),
    ],
)
async def test_a_group_happens_whole_or_not_at_all(
    open_store: OpenStore, last: Operation, error: type[Exception]
) -> None:
    async with open_store() as store:
        await store.commit([Create("/a", b"a"), Create("/b", b"b")])
        before, groups = await store.tree("/"), told(store)
        with pytest.raises(error):
            await store.commit([Put("/a", b"new", 0), Create("/c", b"c"), Delete("/b", 0), Create("/b", b"b"), last])
        assert await store.tree("/") == before
        assert groups == []
        await store.commit([Put("/a", b"later", 0)])
        assert groups == [[("/a", (b"later", 1))]]


async def test_a_check_that_holds_changes_nothing_and_tells_nothing(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.commit([Create("/a", b"a")])
        groups = told(store)
        await store.commit([Check("/a", 0)])
        await store.commit([Check("/a", 0), Create("/b", b"b")])
        assert groups == [[("/b", (b"b", 0))]]
        assert await seen_at(store, "/a") == (b"a", 0)


# --- trees


async def test_a_tree_is_a_node_and_what_is_below_it(open_store: OpenStore) -> None:
    paths = ["/a", "/a-b", "/a.b/c", "/a/b", "/a/b/c", "/a/~", "/a0", "/ab", "/b"]
    async with open_store() as store:
        await store.commit([Create(path, path.encode()) for path in paths])
        assert list(await store.tree("/a")) == ["/a", "/a/b", "/a/b/c", "/a/~"]
        assert await seen_below(store, "/a/b") == {"/a/b": (b"/a/b", 0), "/a/b/c": (b"/a/b/c", 0)}
        assert list(await store.tree("/a.b")) == ["/a.b/c"]
        assert list(await store.tree("/")) == paths
        assert await store.tree("/c") == {}
        assert await store.tree("/a/b/c/d") == {}


async def test_nothing_takes_the_place_above_a_node_or_leaves_it(open_store: OpenStore) -> None:
    """ZooKeeper keeps a node alive for as long as something stands below it."""
    async with open_store() as store:
        await store.commit([Create("/a", b"a"), Create("/a/b/c", b"c")])
        with pytest.raises(NotEmptyError, match="/a"):
            await store.commit([Delete("/a", 0)])
        with pytest.raises(NodeExistsError, match="/a/b"):
            await store.commit([Create("/a/b", b"")])
        assert await seen_below(store, "/") == {"/a": (b"a", 0), "/a/b/c": (b"c", 0)}
        await store.commit([Delete("/a/b/c", 0), Create("/a/b", b"b")])
        await store.commit([Delete("/a/b", 0), Delete("/a", 0)])
        assert await store.tree("/") == {}
        await store.commit([Create("/a", b"again")])
        assert await seen_below(store, "/") == {"/a": (b"again", 0)}


async def test_a_node_goes_with_the_empty_places_below_it(open_store: OpenStore) -> None:
    async with open_store() as store:
        for _ in range(2):
            await store.commit([Create("/t/a", b"a"), Create("/t/a/p/0/s", b""), Create("/t/a/p/1/s", b"")])
            await store.commit([Delete("/t/a/p/0/s", 0)])
            await store.commit([Delete("/t/a/p/1/s", 0), Delete("/t/a", 0)])
            assert await store.tree("/") == {}


async def test_nothing_stands_below_an_ephemeral_node(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.commit([Create("/a/e", b"", is_ephemeral=True)])
        with pytest.raises(EphemeralParentError, match="/a/e"):
            await store.commit([Create("/a/e/below", b"")])
        with pytest.raises(EphemeralParentError, match="/f"):
            await store.commit([Create("/f", b"", is_ephemeral=True), Create("/f/below/it", b"")])
        await store.commit([Delete("/a/e", 0), Create("/a/e", b""), Create("/a/e/below", b"")])
        assert list(await store.tree("/")) == ["/a/e", "/a/e/below"]


# --- watching


async def test_watchers_hear_of_commits_in_commit_order(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.commit([Create("/a", b"")])
        first, second = told(store), told(store)
        await asyncio.gather(*(store.commit([Put("/a", b"%d" % number, ANY_VERSION)]) for number in range(20)))
        versions = [node[1] for group in first for _, node in group if node]
        assert versions == sorted(set(versions))
        assert versions[-1] == 20
        assert first == second
        assert await seen_at(store, "/a") == first[-1][0][1]


async def test_a_watcher_has_heard_of_a_commit_before_its_maker_goes_on(open_store: OpenStore) -> None:
    async with open_store() as store:
        groups = told(store)
        await store.commit([Create("/a", b"")])
        assert len(groups) == 1


async def test_a_refused_commit_hurts_only_its_maker(open_store: OpenStore) -> None:
    async with open_store() as store:
        makers = [store.commit([Create("/a", b"%d" % number)]) for number in range(5)]
        results = await asyncio.gather(*makers, return_exceptions=True)
        assert [type(result) for result in results] == [type(None)] + [NodeExistsError] * 4
        assert await seen_at(store, "/a") == (b"0", 0)


async def test_who_stops_waiting_stops_nothing(open_store: OpenStore) -> None:
    """A commit whose caller is cancelled either never begins or is told to the watchers; there is no third way."""
    async with open_store() as store:
        groups = told(store)
        for turns in range(6):
            commit = asyncio.ensure_future(store.commit([Create(f"/{turns}", b"")]))
            for _ in range(turns):
                await asyncio.sleep(0)
            commit.cancel()
            await asyncio.gather(commit, return_exceptions=True)
        await store.commit([Create("/last", b"")])
        heard = {path for group in groups for path, _ in group}
        assert heard == set(await store.tree("/"))
        assert "/last" in heard


async def test_a_refusal_that_nobody_waits_for_is_nobodys_business(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio complained of an exception that was never retrieved, whenever a cancelled commit was refused."""
    async with open_store() as store:
        await store.commit([Create("/a", b"")])
        commit = asyncio.ensure_future(store.commit([Create("/a", b"")]))
        await asyncio.sleep(0)
        commit.cancel()
        await asyncio.gather(commit, return_exceptions=True)
        await store.commit([Create("/b", b"")])
    del commit
    gc.collect()
    assert own_records(caplog) == []


async def test_a_tree_that_was_read_and_then_watched_misses_nothing(open_store: OpenStore) -> None:
    async with open_store() as store:
        commits = [asyncio.ensure_future(store.commit([Create(f"/{number}", b"")])) for number in range(20)]
        await commits[3]
        nodes = await seen_below(store, "/")
        groups = told(store)
        await asyncio.gather(*commits)
        assert nodes | dict(change for group in groups for change in group) == await seen_below(store, "/")
        assert not nodes.keys() & {path for group in groups for path, _ in group}


# --- the session


async def test_a_store_that_is_open_is_connected_and_its_session_lives(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.wait_connected()
        assert store.session_state is SessionState.CONNECTED
        assert store.lease_until_ms() > SystemClock().monotonic_ms()


# --- all of it at once

PATHS = st.sampled_from(["/a", "/a/b", "/b"])
VERSIONS = st.integers(-1, 2)
VALUES = st.sampled_from([b"", b"x", b"y"])
OPERATIONS = st.one_of(
    st.builds(Create, PATHS, VALUES),
    st.builds(Put, PATHS, VALUES, VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)


GROUPS = st.lists(st.lists(OPERATIONS, max_size=4), max_size=12)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(groups=GROUPS)
def test_two_stores_agree_about_everything(groups: Sequence[Sequence[Operation]]) -> None:
    async def compare(path: Path) -> None:
        embedded, memory = EmbeddedStore(path), MemoryStore()
        await _commit_to_both(embedded, memory, groups)
        await embedded.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder, "metadata.sqlite")))


def test_zookeeper_is_of_the_same_mind(zookeeper: ZooKeeperProcess) -> None:
    @settings(max_examples=25, deadline=None, derandomize=True, phases=[Phase.generate])
    @given(groups=GROUPS)
    def compare(groups: Sequence[Sequence[Operation]]) -> None:
        async def on_a_fresh_tree() -> None:
            store = await open_zookeeper(zookeeper)
            await _commit_to_both(store, MemoryStore(), groups)
            await store.close()

        asyncio.run(on_a_fresh_tree())

    compare()


async def _commit_to_both(one: MetadataStore, other: MetadataStore, groups: Sequence[Sequence[Operation]]) -> None:
    heard = told(one), told(other)
    for group in groups:
        results = await asyncio.gather(one.commit(group), other.commit(group), return_exceptions=True)
        assert type(results[0]) is type(results[1]), (group, results)
        assert await seen_below(one, "/") == await seen_below(other, "/")
    assert heard[0] == heard[1]
