"""The simulated metadata store keeps the promises of every store, and loses connections and sessions as a real one."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.coordination import test_store_contract as contract
from tests.unit.sim.scene import play, running_loop

from tailrace.coordination.store import BadVersionError, Create, NotConnectedError, OutcomeUnknown, Put, SessionState
from tailrace.sim.clock import SimClock
from tailrace.sim.process import Life, Process
from tailrace.sim.store import SimStore
from tailrace.sim.zookeeper import HOST, SimZookeeper

PROMISES = [
    name
    for name, test in vars(contract).items()
    if name.startswith("test_") and list(inspect.signature(test).parameters) == ["open_store"]
]
TIMEOUT_MS = 6_000


class Scene:
    """Servers and programs with a session each."""

    def __init__(self) -> None:
        self.loop = running_loop()
        self.network = self.loop.network
        self.zookeeper = SimZookeeper(self.loop, TIMEOUT_MS)
        self.clock = SimClock(self.loop)

    async def open(self, host: str) -> SimStore:
        self.process = Process(host, host)
        store: SimStore = await self.process.spawn(SimStore.open(self.loop, self.zookeeper, self.clock, host))
        return store

    def states(self, store: SimStore) -> list[SessionState]:
        seen: list[SessionState] = []
        store.on_session(seen.append)
        return seen


@pytest.mark.parametrize("name", PROMISES)
def test_it_promises_what_every_store_promises(name: str) -> None:
    async def scene() -> None:
        world = Scene()

        @asynccontextmanager
        async def open_store() -> AsyncIterator[SimStore]:
            store = await world.open("north")
            try:
                yield store
            finally:
                await store.close()

        await vars(contract)[name](open_store)

    play(scene())


def test_there_are_promises_to_keep() -> None:
    assert len(PROMISES) > 10


def test_others_hear_of_a_commit_soon_and_ephemeral_nodes_go_with_their_session() -> None:
    async def scene() -> None:
        world = Scene()
        north, south = await world.open("north"), await world.open("south")
        await north.commit([Create("/ids/1", b"north", is_ephemeral=True), Create("/kept", b"x")])
        await asyncio.sleep(1)
        assert set(await south.tree("/")) == {"/ids/1", "/kept"}
        await north.close()
        await asyncio.sleep(1)
        assert set(await south.tree("/")) == {"/kept"}

    play(scene())


def test_the_next_change_of_a_node_is_held_with_what_its_client_sends_after_it() -> None:
    async def scene() -> None:
        world = Scene()
        north, south = await world.open("north"), await world.open("south")
        await north.commit([Create("/a", b"0"), Create("/b", b"0")])
        caught = world.zookeeper.hold_next("/a", 1.0)
        await north.commit([Put("/b", b"1", 0)])
        assert not caught.done()
        late = asyncio.ensure_future(north.commit([Put("/a", b"1", 0)]))
        await caught
        after = asyncio.ensure_future(north.commit([Put("/b", b"2", 1)]))
        await south.commit([Put("/a", b"2", 0)])
        with pytest.raises(BadVersionError):
            await late
        await after
        assert [(await south.get(path)).value for path in ("/a", "/b")] == [b"2", b"2"]  # type: ignore[union-attr]

    play(scene())


def test_a_killed_program_is_gone_after_its_time_out_and_not_before() -> None:
    async def scene() -> None:
        world = Scene()
        south, north = await world.open("south"), await world.open("north")
        await north.commit([Create("/ids/1", b"", is_ephemeral=True)])
        world.process.life = Life.DEAD
        await asyncio.sleep(TIMEOUT_MS / 1000 / 2)
        assert await south.get("/ids/1") is not None
        await asyncio.sleep(TIMEOUT_MS / 1000)
        assert await south.get("/ids/1") is None

    play(scene())


def test_a_short_cut_suspends_and_a_long_one_expires() -> None:
    async def scene() -> None:
        world = Scene()
        north = await world.open("north")
        seen = world.states(north)
        world.network.cut("north", HOST)
        await asyncio.sleep(TIMEOUT_MS / 1000 * 0.7)
        world.network.mend_all()
        await asyncio.sleep(5)
        assert seen == [SessionState.SUSPENDED, SessionState.CONNECTED]
        world.network.cut("north", HOST)
        await asyncio.sleep(TIMEOUT_MS / 1000 * 2)
        with pytest.raises(NotConnectedError):
            await north.commit([Create("/a", b"")])
        world.network.mend_all()
        await asyncio.sleep(5)
        assert seen[2:] == [SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.CONNECTED]

    play(scene())


def test_the_lease_never_outlives_the_session() -> None:
    async def scene() -> None:
        world = Scene()
        north = await world.open("north")
        world.network.cut("north", HOST)
        while world.zookeeper.session_ids:
            await asyncio.sleep(0.01)
        assert north.lease_until_ms() <= world.clock.monotonic_ms()

    play(scene())


def test_a_lost_answer_leaves_doubt_until_the_connection_is_back() -> None:
    async def scene() -> None:
        world = Scene()
        north = await world.open("north")
        world.zookeeper.breaks_after_commit = True
        with pytest.raises(OutcomeUnknown):
            await north.commit([Create("/a", b"done")])
        assert north.session_state is SessionState.SUSPENDED  # or who waits for a connection would not wait
        await north.wait_connected()
        node = await north.get("/a")
        assert node is not None
        assert node.value == b"done"

    play(scene())


def test_what_happened_meanwhile_is_told_after_a_cut() -> None:
    async def scene() -> None:
        world = Scene()
        south, north = await world.open("south"), await world.open("north")
        await north.commit([Create("/a", b"1"), Create("/b", b"1")])
        heard: list[Any] = []
        north.watch(heard.append)
        world.network.cut(HOST, "north")
        await asyncio.sleep(0.5)
        await south.commit([Put("/a", b"2", 0)])
        await south.commit([Put("/a", b"3", 1)])
        await asyncio.sleep(TIMEOUT_MS / 1000)
        assert heard == []
        world.network.mend_all()
        await asyncio.sleep(5)
        assert [(change.path, change.node.value) for group in heard for change in group][-1] == ("/a", b"3")

    play(scene())


def test_a_stall_ends_nobodys_session() -> None:
    async def scene() -> None:
        world = Scene()
        north = await world.open("north")
        await north.commit([Create("/ids/1", b"", is_ephemeral=True)])
        world.zookeeper.stall()
        await asyncio.sleep(60)
        world.zookeeper.resume()
        await asyncio.sleep(5)
        assert north.session_state is SessionState.CONNECTED
        assert await north.get("/ids/1") is not None

    play(scene())


def test_a_session_can_be_ended_under_a_client_that_is_well() -> None:
    async def scene() -> None:
        world = Scene()
        north = await world.open("north")
        seen = world.states(north)
        await north.commit([Create("/ids/1", b"", is_ephemeral=True)])
        world.zookeeper.expire(world.zookeeper.session_ids[0])
        await asyncio.sleep(5)
        assert SessionState.EXPIRED in seen
        assert north.session_state is SessionState.CONNECTED
        assert await north.get("/ids/1") is None

    play(scene())
