"""A broker's session with the simulated metadata servers, with delayed and lost messages."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Self

from tailrace.base.clock import Clock
from tailrace.coordination.mirror import Mirror
from tailrace.coordination.store import (
    Change,
    Node,
    NotConnectedError,
    Operation,
    OutcomeUnknown,
    SessionState,
)
from tailrace.coordination.tree import difference
from tailrace.coordination.zookeeper.lease import Lease
from tailrace.sim.loop import VirtualLoop
from tailrace.sim.process import PROCESS
from tailrace.sim.zookeeper import HOST, Channel, SimZookeeper

_TRY_AGAIN_S = 0.2


class _Connection:
    """One connection. Messages of the servers are handled in steps of the store's program."""

    def __init__(self, store: "SimStore", zookeeper: SimZookeeper, host: str) -> None:
        process = PROCESS.get()
        self.owner = host if process is None else process.name
        self.up = Channel(zookeeper.network, host, HOST)
        self._down = Channel(zookeeper.network, HOST, host)
        self._store = store

    def connected(self, session_id: int, nodes: dict[str, Node]) -> None:
        self._down.send(lambda: self._store.run(lambda: self._store.on_connected(self, session_id, nodes)))

    def changed(self, changes: Sequence[Change]) -> None:
        self._down.send(lambda: self._store.run(lambda: self._store.on_changed(self, changes)))

    def answered(self, number: int, error: Exception | None) -> None:
        self._down.send(lambda: self._store.run(lambda: self._store.on_answered(self, number, error)))

    def broken(self) -> None:
        self._down.send(lambda: self._store.run(lambda: self._store.on_broken(self)))

    def close(self) -> None:
        self.up.is_open = self._down.is_open = False


class SimStore(Mirror):
    """The `MetadataStore` of one program. `open` creates it and waits for the first connection."""

    def __init__(self, loop: VirtualLoop, zookeeper: SimZookeeper, clock: Clock, host: str) -> None:
        super().__init__(SessionState.SUSPENDED)
        self._loop = loop
        self._zookeeper = zookeeper
        self._clock = clock
        self._host = host
        self._context = copy_context()
        self._session_id: int | None = None
        self._connection: _Connection | None = None
        self._numbers = itertools.count()
        self._waiting: dict[int, tuple[float, asyncio.Future[None]]] = {}
        self._asked_at_ms = 0.0
        self._lease = Lease()
        self._task = loop.create_task(self._run())

    @classmethod
    async def open(cls, loop: VirtualLoop, zookeeper: SimZookeeper, clock: Clock, host: str) -> Self:
        """Connect, retrying until it succeeds."""
        store = cls(loop, zookeeper, clock, host)
        await store.wait_connected()
        return store

    # --- the MetadataStore interface

    async def commit(self, operations: Sequence[Operation]) -> None:
        connection, session_id, zookeeper = self._connection, self._session_id, self._zookeeper
        if self.state is not SessionState.CONNECTED or connection is None or session_id is None:
            raise NotConnectedError("the metadata store is not reachable")
        late_s = zookeeper.catch(operations)
        await self._ask(lambda number: zookeeper.commit(session_id, connection, number, tuple(operations)), late_s)

    def lease_until_ms(self) -> float:
        return self._lease.until_ms

    async def close(self) -> None:
        self.forget_watchers()
        self._task.cancel()
        connection, session_id, zookeeper = self._connection, self._session_id, self._zookeeper
        if connection is not None and session_id is not None:
            with suppress(OutcomeUnknown, TimeoutError):
                async with asyncio.timeout(zookeeper.session_timeout_ms / 1000):
                    await self._ask(lambda number: zookeeper.close(session_id, connection, number))
        self._drop()

    # --- messages of the servers

    def run(self, action: Callable[[], None]) -> None:
        """Run `action` in a step of the store's program."""
        self._loop.call_soon(action, context=self._context)

    def on_connected(self, connection: _Connection, session_id: int, nodes: dict[str, Node]) -> None:
        """Handle the resumption of the session, or the start of another one."""
        if connection is not self._connection:
            return
        is_new = self._session_id not in (None, session_id)
        self._session_id = session_id
        self._lease.connect(self._asked_at_ms, self._zookeeper.session_timeout_ms)
        if is_new:
            self._move(SessionState.EXPIRED)
        self._tell(difference(self.nodes, nodes))
        self._move(SessionState.CONNECTED)

    def on_changed(self, connection: _Connection, changes: Sequence[Change]) -> None:
        """Handle a change of the tree."""
        if connection is self._connection:
            self._tell(changes)

    def on_answered(self, connection: _Connection, number: int, error: Exception | None) -> None:
        """Handle the reply to a request."""
        asked_at_ms, answer = self._waiting.pop(number, (0.0, None))
        if connection is not self._connection or answer is None:
            return
        self._lease.beat(asked_at_ms)
        if not answer.done():
            answer.set_result(None) if error is None else answer.set_exception(error)

    def on_broken(self, connection: _Connection) -> None:
        """Handle the loss of the connection."""
        if connection is self._connection:
            self._drop()

    # --- internals

    async def _run(self) -> None:
        """Connect, stay connected, and reconnect."""
        while True:
            await self._connect()
            await self._stay()
            self._drop()
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _connect(self) -> None:
        connection = self._connection = _Connection(self, self._zookeeper, self._host)
        session_id, zookeeper = self._session_id, self._zookeeper
        self._asked_at_ms = self._clock.monotonic_ms()
        connection.up.send(lambda: zookeeper.receive(lambda: zookeeper.connect(session_id, connection)))
        with suppress(TimeoutError):
            async with asyncio.timeout(zookeeper.session_timeout_ms / 3000):
                await self.wait_connected()

    async def _stay(self) -> None:
        """Send pings until the connection is lost."""
        while self.state is SessionState.CONNECTED and self._connection is not None:
            connection, session_id, zookeeper = self._connection, self._session_id or 0, self._zookeeper
            with suppress(TimeoutError, OutcomeUnknown):
                async with asyncio.timeout(zookeeper.session_timeout_ms / 3000):
                    await self._ask(lambda number: zookeeper.ping(session_id, connection, number))  # noqa: B023
                    await asyncio.sleep(zookeeper.session_timeout_ms / 6000)
                    continue
            return

    async def _ask(self, action: Callable[[int], None], late_s: float = 0.0) -> None:
        """Send a request and wait for its reply; raise the servers' error, or `OutcomeUnknown`."""
        connection, number = self._connection, next(self._numbers)
        if connection is None:
            raise NotConnectedError("the metadata store is not reachable")
        answer: asyncio.Future[None] = self._loop.create_future()
        self._waiting[number] = (self._clock.monotonic_ms(), answer)
        connection.up.send(lambda: self._zookeeper.receive(lambda: action(number)), late_s)
        await answer

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        waiting, self._waiting = self._waiting, {}
        for _, answer in waiting.values():
            if not answer.done():
                answer.set_exception(OutcomeUnknown("the reply to the commit was lost"))
                answer.exception()  # the caller may be gone
        if self.state is SessionState.CONNECTED:
            self._move(SessionState.SUSPENDED)
