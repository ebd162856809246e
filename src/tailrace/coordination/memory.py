"""The metadata store in memory, with the same semantics, for tests and the simulator.

A `MemoryTree` represents the ZooKeeper servers, and each `MemoryStore` the session of one process.
Each possible failure is a method: replies that do not come, a connection that breaks before or after
a commit was applied, an expired session, late notifications. A `MemoryStore()` without arguments has
its own tree and never fails.
"""

from collections.abc import Awaitable, Callable, Sequence
from math import inf

from tailrace.base.clock import Clock
from tailrace.coordination.mirror import Mirror
from tailrace.coordination.store import (
    Change,
    CommitTooLargeError,
    Create,
    Node,
    NotConnectedError,
    Operation,
    OutcomeUnknown,
    SessionState,
)
from tailrace.coordination.tree import Step, Tree, difference

SESSION_TIMEOUT_MS = 18_000


class MemoryTree:
    """The state that all sessions share: the nodes, and the owners of the ephemeral ones."""

    def __init__(self, *, commit_bytes_max: float = inf) -> None:
        self._tree = Tree()
        self._owners: dict[str, MemoryStore] = {}
        self._stores: list[MemoryStore] = []
        self._commit_bytes_max = commit_bytes_max

    @property
    def nodes(self) -> dict[str, Node]:
        """Every current node, even if watchers were not notified of it."""
        return self._tree.nodes

    def join(self, store: "MemoryStore") -> None:
        self._stores.append(store)

    def leave(self, store: "MemoryStore") -> None:
        self._stores.remove(store)

    def commit(self, store: "MemoryStore", operations: Sequence[Operation]) -> None:
        if sum(len(each.path) + len(getattr(each, "value", b"")) for each in operations) > self._commit_bytes_max:
            raise CommitTooLargeError(f"the commit of {len(operations)} operations is too large for the metadata store")
        steps = self._tree.decide(operations)
        self._owners.update({each.path: store for each in operations if isinstance(each, Create) and each.is_ephemeral})
        self._replay(steps)

    def end_session(self, store: "MemoryStore") -> None:
        """Remove the ephemeral nodes of the session of `store`."""
        gone = sorted(path for path, owner in self._owners.items() if owner is store)
        self._replay([Step(Change(path, None), True) for path in gone])

    def _replay(self, steps: Sequence[Step]) -> None:
        self._tree.replay(steps)
        self._owners = {path: self._owners[path] for path in self._tree.ephemeral}
        changes = [step.change for step in steps]
        for store in tuple(self._stores):
            store.hear(changes)


class MemoryStore(Mirror):
    """A `MetadataStore` without durability: one session with a tree."""

    def __init__(
        self,
        tree: MemoryTree | None = None,
        clock: Clock | None = None,
        *,
        session_timeout_ms: float = SESSION_TIMEOUT_MS,
        pause: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`pause` is awaited before a commit reaches the tree, and before its reply returns."""
        self._tree = tree or MemoryTree()
        super().__init__(SessionState.CONNECTED, self._tree.nodes)
        self._has_own_tree = tree is None  # tests reopen it by using the store after `close`
        self._clock = clock
        self._session_timeout_ms = session_timeout_ms
        self._pause = pause
        self._news: list[Sequence[Change]] = []
        self._is_holding_news = self._is_stalled = self._is_expired = self._loses_answer = False
        self._silent_since_ms = 0.0
        self._connection = 0
        self._tree.join(self)

    # --- the MetadataStore interface

    async def commit(self, operations: Sequence[Operation]) -> None:
        connection = self._connection
        await self._travel(connection, NotConnectedError("the metadata store is not reachable"))
        try:
            if self._loses_answer:
                self._commit_and_break(operations)
            else:
                self._tree.commit(self, operations)
        finally:
            # A reply never overtakes the notifications that precede it.
            await self._travel(connection, OutcomeUnknown("the reply to the commit was lost"))
            self._tell_news()

    def lease_until_ms(self) -> float:
        if self._clock is None:
            return inf
        is_heard = self.state is SessionState.CONNECTED and not self._is_stalled
        return (self._clock.monotonic_ms() if is_heard else self._silent_since_ms) + self._session_timeout_ms

    async def close(self) -> None:
        self.forget_watchers()
        self._tree.end_session(self)
        if not self._has_own_tree:
            self._connection += 1
            self._tree.leave(self)

    # --- failures

    def stall(self) -> None:
        """Stop all replies and notifications, while the connection appears to be up."""
        self._fall_silent()
        self._is_stalled = True

    def suspend(self) -> None:
        """Break the connection, so that the outcome of commits in progress is unknown."""
        if self.state is SessionState.CONNECTED:
            self._fall_silent()
            self._is_stalled = False
            self._connection += 1
            self._move(SessionState.SUSPENDED)

    def resume(self) -> None:
        """End a stall, or reconnect: to the old session if it still exists, otherwise to a new one."""
        if self.state is SessionState.CONNECTED and not self._is_expired:
            self._is_stalled = False
            self.moved.set()
            self._tell_unless_held()
            return
        if self._is_expired:
            self._connection += 1
            self._is_expired = self._is_stalled = False
            self._move(SessionState.EXPIRED)
        self._news.clear()
        self._tell(difference(self.nodes, self._tree.nodes))
        self._move(SessionState.CONNECTED)

    def expire(self) -> None:
        """End the session on the servers' side; a store that notices begins another one at once."""
        can_hear = self.state is SessionState.CONNECTED and not self._is_stalled
        self._is_expired = True
        self._fall_silent()
        self._tree.end_session(self)
        if can_hear:
            self.resume()

    def lose_next_answer(self) -> None:
        """Break the connection right after the next commit was applied."""
        self._loses_answer = True

    def hold_news(self) -> None:
        """Delay notifications from now on, except those that come with the reply to a commit."""
        self._is_holding_news = True

    def release_news(self, group_count: int | None = None) -> None:
        """Send the next groups of delayed notifications; without a count, send all and stop delaying."""
        if group_count is None:
            self._is_holding_news = False
            group_count = len(self._news)
        if self.state is SessionState.CONNECTED and not self._is_stalled:
            self._tell_news(group_count)

    # --- internals

    def hear(self, changes: Sequence[Change]) -> None:
        """Receive a change of the tree."""
        if self.state is SessionState.CONNECTED and not self._is_expired:
            self._news.append(changes)
            self._tell_unless_held()

    def _commit_and_break(self, operations: Sequence[Operation]) -> None:
        is_holding_news, self._is_holding_news = self._is_holding_news, True
        try:
            self._tree.commit(self, operations)
        finally:
            self._is_holding_news = is_holding_news
        self._loses_answer = False
        self.suspend()

    async def _travel(self, connection: int, failure: OutcomeUnknown) -> None:
        if self._pause is not None:
            await self._pause()
        while self._is_stalled and connection == self._connection:
            self.moved.clear()
            await self.moved.wait()
        if connection != self._connection or self.state is not SessionState.CONNECTED:
            raise failure

    def _fall_silent(self) -> None:
        if self._clock is not None and self.state is SessionState.CONNECTED and not self._is_stalled:
            self._silent_since_ms = self._clock.monotonic_ms()

    def _tell_unless_held(self) -> None:
        if not self._is_holding_news and not self._is_stalled:
            self._tell_news()

    def _tell_news(self, group_count: int | None = None) -> None:
        news, self._news = self._news[:group_count], self._news[len(self._news[:group_count]) :]
        for changes in news:
            self._tell(changes)
