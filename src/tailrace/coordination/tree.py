"""The semantics of a metadata store, without disk, network or clock.

A group of operations is first decided, which changes nothing, and replayed after it was made durable.
The stores that keep their own tree, in memory or in a file, share this code; tests compare it with a
ZooKeeper server.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tailrace.coordination.store import (
    ANY_VERSION,
    BadVersionError,
    Change,
    Check,
    Create,
    Delete,
    EphemeralParentError,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Put,
)


class Step(NamedTuple):
    """One decided change. The change of an ephemeral node is not kept for another session."""

    change: Change
    is_ephemeral: bool


class Tree:
    """Nodes by path, and the number of the last transaction that created a node."""

    def __init__(self, nodes: Mapping[str, Node] | None = None, transaction: int = 0) -> None:
        self.nodes: dict[str, Node] = {}
        self.ephemeral: set[str] = set()
        self.transaction = transaction
        self._below: Counter[str] = Counter()
        self.replay([Step(Change(path, node), False) for path, node in (nodes or {}).items()])

    def at_or_below(self, path: str) -> dict[str, Node]:
        return at_or_below(self.nodes, path)

    def count_below(self, path: str) -> int:
        return self._below[path]

    def decide(self, operations: Sequence[Operation]) -> list[Step]:
        """Return the resulting steps, one for each path; raise an error if an operation is not possible."""
        draft = _Draft(self)
        for operation in operations:
            draft.add(operation)
        return [step for step in draft.steps.values() if step.change.node or step.change.path in self.nodes]

    def replay(self, steps: Sequence[Step]) -> None:
        """Apply decided steps."""
        for (path, node), is_ephemeral in steps:
            if (node is None) != (path not in self.nodes):
                self._below.update(dict.fromkeys(ancestors(path), -1 if node is None else 1))
            self.ephemeral.discard(path)
            if node is None:
                self.nodes.pop(path, None)
                continue
            self.nodes[path] = node
            self.transaction = max(self.transaction, node.created)
            if is_ephemeral:
                self.ephemeral.add(path)


class _Draft:
    """The tree as it would be after the first operations of a group."""

    def __init__(self, tree: Tree) -> None:
        self.steps: dict[str, Step] = {}
        self._tree = tree
        self._below: Counter[str] = Counter()

    def add(self, operation: Operation) -> None:
        path = operation.path
        node = self._node(path)
        if isinstance(operation, Create):
            self._check_room(path, node)
            created = Node(operation.value, 0, self._tree.transaction + 1)
            self._set(path, created, operation.is_ephemeral)
            return
        if node is None:
            raise NoNodeError(path)
        if operation.version not in (ANY_VERSION, node.version):
            raise BadVersionError(f"{path} has version {node.version}, not {operation.version}")
        match operation:
            case Put(_, value):
                self._set(path, Node(value, node.version + 1, node.created), self._is_ephemeral(path))
            case Delete():
                if self._tree.count_below(path) + self._below[path]:
                    raise NotEmptyError(path)
                self._set(path, None, self._is_ephemeral(path))
            case Check():
                pass

    def _check_room(self, path: str, node: Node | None) -> None:
        if node is not None:
            raise NodeExistsError(path)
        if self._tree.count_below(path) + self._below[path]:
            raise NodeExistsError(f"{path} has nodes below it")
        for above in ancestors(path):
            if self._node(above) is not None and self._is_ephemeral(above):
                raise EphemeralParentError(f"{path} cannot be created below {above}, which is ephemeral")

    def _node(self, path: str) -> Node | None:
        step = self.steps.get(path)
        return step.change.node if step else self._tree.nodes.get(path)

    def _is_ephemeral(self, path: str) -> bool:
        step = self.steps.get(path)
        return step.is_ephemeral if step else path in self._tree.ephemeral

    def _set(self, path: str, node: Node | None, is_ephemeral: bool) -> None:
        if (node is None) != (self._node(path) is None):
            self._below.update(dict.fromkeys(ancestors(path), -1 if node is None else 1))
        self.steps[path] = Step(Change(path, node), is_ephemeral)


def ancestors(path: str) -> Iterator[str]:
    """Yield every path above `path`, the nearest first, without the root."""
    while (slash := path.rfind("/")) > 0:
        path = path[:slash]
        yield path


def at_or_below(nodes: Mapping[str, Node], path: str) -> dict[str, Node]:
    """Return the part of `nodes` that is at `path` or below it, in order."""
    below = path.rstrip("/") + "/"
    return {name: nodes[name] for name in sorted(nodes) if name == path or name.startswith(below)}


def difference(old: Mapping[str, Node], new: Mapping[str, Node]) -> list[Change]:
    """Return the changes from `old` to `new`: removals first, children before parents, then parents before children."""
    removed = [Change(path, None) for path in sorted(old.keys() - new.keys(), reverse=True)]
    return removed + [Change(path, new[path]) for path in sorted(new) if old.get(path) != new[path]]
