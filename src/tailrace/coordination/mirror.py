"""The common part of metadata stores in memory: the nodes known to watchers, and the state of the session."""

import asyncio
from collections.abc import Mapping, Sequence

from tailrace.coordination.store import Change, Node, SessionListener, SessionState, Watcher
from tailrace.coordination.tree import at_or_below


class Mirror:
    """The part of a `MetadataStore` that is independent of its backend: reads return what watchers were told."""

    def __init__(self, state: SessionState, nodes: Mapping[str, Node] | None = None) -> None:
        self.state = state
        self.nodes: dict[str, Node] = dict(nodes or {})
        self.moved = asyncio.Event()
        self._watchers: list[Watcher] = []
        self._listeners: list[SessionListener] = []

    @property
    def session_state(self) -> SessionState:
        return self.state

    async def get(self, path: str) -> Node | None:
        return self.nodes.get(path)

    async def tree(self, path: str) -> dict[str, Node]:
        return at_or_below(self.nodes, path)

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def on_session(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def wait_connected(self) -> None:
        while self.state is not SessionState.CONNECTED:
            self.moved.clear()
            await self.moved.wait()

    def forget_watchers(self) -> None:
        """Remove all watchers and listeners, which no longer exist."""
        self._watchers.clear()
        self._listeners.clear()

    def _move(self, state: SessionState) -> None:
        self.state = state
        self.moved.set()
        for listener in tuple(self._listeners):
            listener(state)

    def _tell(self, changes: Sequence[Change]) -> None:
        for path, node in changes:
            if node is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node
        if changes:
            for watcher in tuple(self._watchers):
                watcher(changes)
