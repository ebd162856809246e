"""The metadata store of a cluster: ZooKeeper, 3.6 or later.

One persistent watch covers the whole tree. An event only names a path; the node is read, compared
with the known one, and reported if it differs. Events and replies wait in one queue in the order of
their arrival, so a caller whose commit was applied or rejected has been told of all earlier changes.
After every connect, the whole tree is read and compared in the same way. An empty commit precedes
that read, through the leader, so a server that lags behind cannot show an older tree than the one
already reported.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from kazoo import exceptions
from kazoo.protocol.serialization import CheckVersion, Create, GetData, Transaction
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from tailrace.base.clock import Clock, SystemClock
from tailrace.base.limits import ZOOKEEPER_COMMIT_BYTES_MAX, ZOOKEEPER_PLANS_MAX
from tailrace.coordination.shield import finish_anyway
from tailrace.coordination.store import (
    Change,
    CommitTooLargeError,
    Node,
    NotConnectedError,
    Operation,
    OutcomeUnknown,
    SessionListener,
    SessionState,
    StoreUnreachableError,
    Watcher,
)
from tailrace.coordination.tree import at_or_below, difference
from tailrace.coordination.zookeeper.lease import HEARTBEATS_PER_TIMEOUT, Lease
from tailrace.coordination.zookeeper.link import Link, ZooKeeperServers
from tailrace.coordination.zookeeper.plan import Refused, Shadow, Step, plan, refusal_of
from tailrace.coordination.zookeeper.reader import Reader, is_of_zookeeper, node_at
from tailrace.coordination.zookeeper.refusal import REFUSED, explain_refusal
from tailrace.coordination.zookeeper.request import AddWatch, Found

log = logging.getLogger("tailrace.zookeeper")

_LOST = (exceptions.ConnectionLoss, exceptions.SessionExpiredError, exceptions.ConnectionClosedError)


class _Commit:
    """A transaction in progress."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.paths = {step.operation.path for step in steps}
        self.is_answered = False
        self.failure: Exception | None = None
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settle(self, error: Exception | None) -> None:
        if not self.end.done():
            self.end.set_result(None) if error is None else self.end.set_exception(error)


class ZooKeeperStore:
    """A `MetadataStore` that several processes share."""

    def __init__(
        self,
        servers: ZooKeeperServers,
        *,
        root: str = "",
        anchor: str = "",
        sets_acl: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """`root` is a path, without a slash at its end, below which everything is stored.

        `anchor` is the path of a node that never changes. A ZooKeeper without it, or with another value, has lost its
        data or belongs to another cluster; watchers are not told that everything is gone.
        """
        self._anchor = anchor
        self._root = root
        self._acl = CREATOR_ALL_ACL if sets_acl else OPEN_ACL_UNSAFE
        self._clock = clock or SystemClock()
        self._shadow = Shadow()
        self._lease = Lease()
        self._state = SessionState.SUSPENDED
        self._watchers: list[Watcher] = []
        self._listeners: list[SessionListener] = []
        self._inbox: list[str | _Commit] = []
        self._in_flight: dict[_Commit, None] = {}
        self._must_read_all = False
        self._is_closed = False
        self._is_silence_told = self._is_refusal_told = True  # `open` reports the result of the first connection
        self._refusal = ""
        self._link_count = 0
        self._arrived = asyncio.Event()
        self._connected = asyncio.Event()
        self._refused = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._reader = Reader(self._ask, root)
        self._link = Link(servers, self._clock, self._on_link, self._on_event, self._on_refusal)

    async def open(self, timeout_ms: int) -> None:
        """Connect and read the tree; raise StoreUnreachableError if that takes longer than `timeout_ms`."""
        self._link.start()
        spawn = asyncio.get_running_loop().create_task
        self._tasks = [spawn(self._run()), spawn(self._beat())]
        for task in self._tasks:
            task.add_done_callback(self._on_task_end)
        waiting = [spawn(self.wait_connected()), spawn(self._refused.wait())]
        await asyncio.wait(waiting, timeout=timeout_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()
        if self._state is SessionState.CONNECTED:
            return
        await self.close()
        raise StoreUnreachableError(
            self._refusal
            if self._refused.is_set()
            else f"ZooKeeper did not answer within {timeout_ms} ms: {self._link.trouble or 'no reply'}"
        )

    # --- the MetadataStore interface

    @property
    def session_state(self) -> SessionState:
        return self._state

    async def get(self, path: str) -> Node | None:
        return self._shadow.nodes.get(path)

    async def tree(self, path: str) -> dict[str, Node]:
        return at_or_below(self._shadow.nodes, path)

    async def commit(self, operations: Sequence[Operation]) -> None:
        # A cancelled caller leaves a transaction that may still be applied, and watchers are then told.
        await finish_anyway(self._commit(tuple(operations)))

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def lease_until_ms(self) -> float:
        return self._lease.until_ms

    def on_session(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def wait_connected(self) -> None:
        await self._connected.wait()

    async def close(self) -> None:
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._give_up(OutcomeUnknown("the store was closed during a commit"))
        self._state = SessionState.EXPIRED
        self._lease.end()
        await self._link.close()

    # --- commits

    async def _commit(self, operations: tuple[Operation, ...]) -> None:
        tried: list[Step] | None = None
        error: Exception = OutcomeUnknown("the metadata changes too fast for a commit")
        for _ in range(ZOOKEEPER_PLANS_MAX):
            steps = plan(self._shadow, operations, self._root, self._acl)
            if steps == tried:
                break  # the new state does not change the plan
            try:
                return await self._transact(steps)
            except Refused as refused:
                if not refused.is_about_structure:
                    raise refused.error from None
                tried, error = steps, refused.error
        raise error

    async def _transact(self, steps: list[Step]) -> None:
        if self._state is not SessionState.CONNECTED:
            raise NotConnectedError("not connected to ZooKeeper")
        transaction = Transaction([step.request for step in steps]) if steps else self._nothing()
        if (size_bytes := len(transaction.serialize())) > ZOOKEEPER_COMMIT_BYTES_MAX:
            raise CommitTooLargeError(
                f"the commit of {len(steps)} requests has {size_bytes} bytes, but ZooKeeper accepts at most "
                f"{ZOOKEEPER_COMMIT_BYTES_MAX}"
            )
        commit = _Commit(steps)
        self._in_flight[commit] = None
        self._link.send(transaction, partial(self._on_commit, commit))
        await commit.end

    def _nothing(self) -> Transaction:
        """Return a transaction that a majority must confirm and that changes nothing."""
        return Transaction([CheckVersion(self._root or "/", -1)])

    def _on_commit(self, commit: _Commit, results: Sequence[object] | None, error: Exception | None) -> None:
        if commit.end.done():
            return
        if error is not None:
            # The link reports the broken connection a moment later. A caller with an unknown outcome waits for the next
            # connection, and must not find this one.
            if not isinstance(error, _LOST):
                log.error("invalid reply of ZooKeeper to a commit: %r", error)
                self._link.cut()
            self._on_link(SessionState.SUSPENDED)
            return
        commit.is_answered = True
        commit.failure = refusal_of(commit.steps, results or ())
        self._put(commit)

    # --- events and replies

    def _on_event(self, path: str) -> None:
        path = path.removeprefix(self._root)
        if path and not is_of_zookeeper(path):
            self._put(path)

    def _on_link(self, state: SessionState) -> None:
        if self._is_closed:
            return
        self._link_count += 1
        self._inbox.clear()
        self._must_read_all = state is SessionState.CONNECTED
        if state is SessionState.CONNECTED:
            if self._state is not SessionState.EXPIRED:
                self._renew_lease()
            self._arrived.set()
            return
        self._connected.clear()
        if state is SessionState.EXPIRED:
            self._lease.end()
        self._give_up(OutcomeUnknown("the connection to ZooKeeper broke during a commit"))
        self._move(state)

    def _on_refusal(self, reason: str, is_everywhere: bool = True) -> None:
        """Note that a server refuses this client, or that all do, and log the first refusal after a connection.

        A store that is being opened is closed when all servers refuse, and its owner tells the reason.
        """
        if is_everywhere:
            self._refusal = reason
            self._refused.set()
        if not self._is_refusal_told and not self._is_closed:
            self._is_refusal_told = True
            log.error("%s", reason)

    def _renew_lease(self) -> None:
        self._lease.connect(self._link.connect_sent_ms, self._link.session_timeout_ms)

    def _give_up(self, doubt: OutcomeUnknown) -> None:
        in_flight, self._in_flight = self._in_flight, {}
        for commit in in_flight:
            commit.settle(commit.failure or doubt)

    def _put(self, arrival: str | _Commit) -> None:
        self._inbox.append(arrival)
        self._arrived.set()

    def _take(self) -> list[str | _Commit]:
        """Return the arrivals up to the first event of an own commit that is not answered yet."""
        ours = set().union(*(commit.paths for commit in self._in_flight if not commit.is_answered))
        count = next((index for index, arrival in enumerate(self._inbox) if arrival in ours), len(self._inbox))
        taken, self._inbox = self._inbox[:count], self._inbox[count:]
        return taken

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            try:
                if self._must_read_all:
                    await self._read_all()
                while self._state is SessionState.CONNECTED and (arrivals := self._take()):
                    await self._tell_arrivals(arrivals)
            except _LOST as error:
                log.debug("reading from ZooKeeper failed: %r", error)  # the next connection reads everything again
            except REFUSED as error:
                self._on_refusal(explain_refusal(error))

    async def _tell_arrivals(self, arrivals: Sequence[str | _Commit]) -> None:
        paths = list(dict.fromkeys(arrival for arrival in arrivals if isinstance(arrival, str)))
        found = await self._reader.read(GetData, paths) if paths else []
        self._tell([change for path, each in zip(paths, found, strict=True) for change in self._learn(path, each)])
        for arrival in arrivals:
            if isinstance(arrival, _Commit) and arrival in self._in_flight:
                del self._in_flight[arrival]
                arrival.settle(arrival.failure)

    def _learn(self, path: str, found: object) -> Iterator[Change]:
        before = self._shadow.nodes.get(path)
        if isinstance(found, Found):
            self._shadow.place(path, node_at(found))
        elif isinstance(found, exceptions.NoNodeError):
            self._shadow.remove(path)
        else:
            log.error("cannot read %s from ZooKeeper: %r", path, found)
        after = self._shadow.nodes.get(path)
        if after != before:
            yield Change(path, after)

    async def _read_all(self) -> None:
        self._must_read_all = False
        link_count = self._link_count
        await self._make_root()
        await self._ask(self._nothing())
        await self._ask(AddWatch(self._root or "/"))
        shadow = Shadow()
        async for path, found in self._reader.walk():
            shadow.place(path, node_at(found))
        if not self._is_ours(shadow):
            self._lease.end()
            reason = "it lost its data or belongs to another cluster"
            log.critical("ZooKeeper no longer holds %s with its old value: %s", self._anchor, reason)
            return
        changes = difference(self._shadow.nodes, shadow.nodes)
        self._shadow = shadow
        self._tell(changes)
        if link_count == self._link_count:
            if self._state is SessionState.EXPIRED:
                # Not before, so that this session's lease is not taken for that of the previous session.
                self._renew_lease()
            self._move(SessionState.CONNECTED)
            self._connected.set()

    def _is_ours(self, shadow: Shadow) -> bool:
        known, found = self._shadow.nodes.get(self._anchor), shadow.nodes.get(self._anchor)
        return known is None or (found is not None and found.value == known.value)

    async def _make_root(self) -> None:
        names = self._root.split("/")[1:]
        for depth in range(1, len(names) + 1):
            path = "/" + "/".join(names[:depth])
            (result,) = await self._ask(Transaction([Create(path, None, self._acl, 0)]))
            if isinstance(result, Exception) and not isinstance(result, exceptions.NodeExistsError):
                raise result

    def _ask(self, request: object) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def settle(value: object, error: Exception | None) -> None:
            if error is not None and not isinstance(error, (*_LOST, *REFUSED)):
                log.error("invalid reply of ZooKeeper: %r", error)
                self._link.cut()
                error = exceptions.ConnectionLoss()
            if not answer.done():
                answer.set_result(value) if error is None else answer.set_exception(error)

        self._link.send(request, settle)
        return answer

    # --- notifications

    def _tell(self, changes: Sequence[Change]) -> None:
        if changes:
            for watcher in self._watchers:
                watcher(changes)

    def _move(self, state: SessionState) -> None:
        if state is not self._state:
            self._state = state
            self._log_state()
            for listener in self._listeners:
                listener(state)

    def _log_state(self) -> None:
        match self._state:
            case SessionState.CONNECTED:
                self._is_silence_told = self._is_refusal_told = False
                log.info("connected to ZooKeeper")
            case SessionState.SUSPENDED:
                left_s = max(0.0, self._lease.until_ms - self._clock.monotonic_ms()) / 1000
                trouble = self._link.trouble or "the connection broke"
                log.warning("ZooKeeper is not reachable: %s; acknowledgements continue for %.1f s", trouble, left_s)
            case SessionState.EXPIRED:
                log.warning(
                    "the session with ZooKeeper has expired; this broker leads no partition until it registers again"
                )

    def _log_silence(self) -> None:
        """Log once that this broker cannot serve any more, and what to do."""
        if not self._is_silence_told and self._clock.monotonic_ms() >= self._lease.until_ms:
            self._is_silence_told = True
            log.error(
                "ZooKeeper at %s has not answered for so long that other brokers may lead by now: this broker "
                "acknowledges nothing until it answers. Check that its servers run and can be reached from here",
                self._link.hosts,
            )

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            # A store that no longer notifies its watchers must not act as if its session existed.
            log.critical("the ZooKeeper store failed", exc_info=error)
            self._lease.end()
            self._on_link(SessionState.SUSPENDED)

    async def _beat(self) -> None:
        """Renew the lease."""
        while True:
            await asyncio.sleep(self._link.session_timeout_ms / HEARTBEATS_PER_TIMEOUT / 1000)
            self._log_silence()
            if self._state is SessionState.CONNECTED:
                self._link.send(self._nothing(), partial(self._on_beat, self._clock.monotonic_ms()))

    def _on_beat(self, sent_ms: int, _results: object, error: Exception | None) -> None:
        if error is None:
            self._lease.beat(sent_ms)
