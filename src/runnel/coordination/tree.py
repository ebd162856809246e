"""The semantics of a metadata store, without disk, network or clock.

A group of operations is decided first, which changes nothing, and replayed when it has
been made durable. The stores that keep their own tree, in memory or in a file, share this
code; ZooKeeper's server is the judge of whether it is right.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from runnel.coordination.store import (
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
    """One change that was decided; that of an ephemeral node is not kept for another session."""

    change: Change
    is_ephemeral: bool


class Tree:
    """Nodes by their paths, and the number of the last transaction that created one."""

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
        """What `operations` come to, one step a path; raises when one of them cannot be done."""
        draft = _Draft(self)
        for operation in operations:
            draft.add(operation)
        return [step for step in draft.steps.values() if step.change.node or step.change.path in self.nodes]

    def replay(self, steps: Sequence[Step]) -> None:
        """Make decided steps true."""
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
    """The tree as it would be after some operations of a group."""

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
            raise BadVersionError(f"{path} is at version {node.version}, not {operation.version}")
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
                raise EphemeralParentError(f"{path} cannot stand below {above}, which is ephemeral")

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
    """Every path above `path`, the nearest first, without the root."""
    while (slash := path.rfind("/")) > 0:
        path = path[:slash]
        yield path


def at_or_below(nodes: Mapping[str, Node], path: str) -> dict[str, Node]:
    """The part of `nodes` that stands at `path` or below it, in order."""
    below = path.rstrip("/") + "/"
    return {name: nodes[name] for name in sorted(nodes) if name == path or name.startswith(below)}


def difference(old: Mapping[str, Node], new: Mapping[str, Node]) -> list[Change]:
    """What turns `old` into `new`: removals first and children before parents, then parents before children."""
    removed = [Change(path, None) for path in sorted(old.keys() - new.keys(), reverse=True)]
    return removed + [Change(path, new[path]) for path in sorted(new) if old.get(path) != new[path]]
