"""What a store in memory has told its watchers, who they are, and how its session stands."""

import asyncio
from collections.abc import Mapping, Sequence

from runnel.coordination.store import Change, Node, SessionListener, SessionState, Watcher
from runnel.coordination.tree import at_or_below


class Mirror:
    """The part of a `MetadataStore` that is the same whatever is behind it: what can be read is what was told."""

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
        """Tell nobody any more: whoever listened is gone."""
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
