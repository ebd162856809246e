"""The metadata store in memory: the same semantics, for tests and the simulator."""

from collections.abc import Sequence

from runnel.coordination.store import (
    ANY_VERSION,
    BadVersionError,
    Change,
    Create,
    Delete,
    Node,
    NodeExistsError,
    NoNodeError,
    Operation,
    Put,
    Watcher,
)


class MemoryStore:
    """A `MetadataStore` that forgets when the process ends."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._watchers: list[Watcher] = []

    async def get(self, path: str) -> Node | None:
        return self._nodes.get(path)

    async def tree(self, path: str) -> dict[str, Node]:
        below = path.rstrip("/") + "/"
        return {name: node for name, node in sorted(self._nodes.items()) if name == path or name.startswith(below)}

    async def commit(self, operations: Sequence[Operation]) -> None:
        nodes = dict(self._nodes)
        changes = [change for operation in operations if (change := _apply(nodes, operation))]
        self._nodes = nodes
        for watcher in self._watchers:
            watcher(changes)

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    async def close(self) -> None:
        """Nothing is held."""


def _apply(nodes: dict[str, Node], operation: Operation) -> Change | None:
    node = nodes.get(operation.path)
    if isinstance(operation, Create):
        if node is not None:
            raise NodeExistsError(operation.path)
        nodes[operation.path] = Node(operation.value, 0)
    elif node is None:
        raise NoNodeError(operation.path)
    elif operation.version not in (ANY_VERSION, node.version):
        raise BadVersionError(f"{operation.path} is at version {node.version}, not {operation.version}")
    elif isinstance(operation, Put):
        nodes[operation.path] = Node(operation.value, node.version + 1)
    elif isinstance(operation, Delete):
        del nodes[operation.path]
    else:
        return None
    return Change(operation.path, nodes.get(operation.path))
