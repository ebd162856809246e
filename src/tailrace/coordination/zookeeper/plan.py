"""The translation of operations on nodes into one ZooKeeper transaction.

In ZooKeeper every node has a parent, and a node with children cannot be removed. Missing parents are
created without a value, as Kafka does, and are not visible to callers; such a place is removed with
the node above it, or when a node replaces it. The existing nodes are known from the watch, so a plan
may be stale: then the transaction fails as a whole, and a new plan is made with the new state.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from kazoo import exceptions
from kazoo.protocol import serialization

from tailrace.coordination.store import (
    BadVersionError,
    Create,
    Delete,
    EphemeralParentError,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Put,
    StoreUnreachableError,
)
from tailrace.coordination.tree import ancestors
from tailrace.coordination.zookeeper.refusal import REFUSED, explain_refusal

_EPHEMERAL_FLAG = 1
_NOWHERE = "/nothing is here"
"""A path below a bare place at which no node exists: requests for it fail as if the place were empty."""
_UNDONE = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)
_ERRORS: dict[type[Exception], type[Exception]] = {
    exceptions.NodeExistsError: NodeExistsError,
    exceptions.NoNodeError: NoNodeError,
    exceptions.NotEmptyError: NotEmptyError,
    exceptions.BadVersionError: BadVersionError,
    exceptions.NoChildrenForEphemeralsError: EphemeralParentError,
}


class Step(NamedTuple):
    """One request of a transaction, and the operation that needs it."""

    request: Any
    operation: Operation


class Shadow:
    """The znodes as last seen: nodes, and the bare places above them."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.bare: set[str] = set()
        self._children: defaultdict[str, set[str]] = defaultdict(set)

    def children(self, path: str) -> set[str]:
        return self._children.get(path, set())

    def place(self, path: str, node: Node | None) -> None:
        """Record a znode at `path`: a node, or a bare place."""
        if node is None:
            self.nodes.pop(path, None)
            self.bare.add(path)
        else:
            self.nodes[path] = node
            self.bare.discard(path)
        self._children[_parent(path)].add(path)

    def remove(self, path: str) -> None:
        self.nodes.pop(path, None)
        self.bare.discard(path)
        if siblings := self._children.get(_parent(path)):
            siblings.discard(path)
            if not siblings:
                del self._children[_parent(path)]


def plan(shadow: Shadow, operations: Sequence[Operation], root: str, acl: Sequence[Any]) -> list[Step]:
    """Return the transaction that applies `operations`."""
    draft = _Draft(shadow, root, acl)
    for operation in operations:
        draft.add(operation)
    return draft.steps


class Refused(Exception):
    """A step failed; `error` is the error of the store interface.

    If the error is about existing or missing nodes, another plan may succeed.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_about_structure = isinstance(error, (NodeExistsError, NoNodeError, NotEmptyError))


def refusal_of(steps: Sequence[Step], results: Sequence[object]) -> Exception | None:
    """Return the error of the step that failed, if any. Other steps were rolled back or not executed."""
    for step, result in zip(steps, results, strict=False):
        if isinstance(result, Exception) and not isinstance(result, _UNDONE):
            path = step.operation.path
            if isinstance(result, REFUSED):
                return StoreUnreachableError(explain_refusal(result, path))
            kind = _ERRORS.get(type(result))
            return result if kind is None else Refused(kind(path))
    return None


class _Kind(Enum):
    NODE = "node"
    BARE = "bare"


class _Draft:
    """The znodes after the first operations of a group, and the requests that lead to them."""

    def __init__(self, shadow: Shadow, root: str, acl: Sequence[Any]) -> None:
        self.steps: list[Step] = []
        self._shadow = shadow
        self._root = root
        self._acl = list(acl)
        self._kinds: dict[str, _Kind | None] = {}
        self._made: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, operation: Operation) -> None:
        path = operation.path
        znode = self._root + path
        if isinstance(operation, Create):
            self._make_parents(operation)
            if self._kind(path) is _Kind.BARE and not self._has_nodes_below(path):
                self._clear_below(operation, path)
                self._remove(operation, path)
            flags = _EPHEMERAL_FLAG if operation.is_ephemeral else 0
            self._ask(operation, serialization.Create(znode, operation.value, self._acl, flags))
            self._place(path, _Kind.NODE)
            return
        if self._kind(path) is _Kind.BARE:
            self._ask(operation, serialization.CheckVersion(znode + _NOWHERE, -1))
        elif isinstance(operation, Put):
            self._ask(operation, serialization.SetData(znode, operation.value, operation.version))
        elif isinstance(operation, Delete):
            if not self._has_nodes_below(path):
                self._clear_below(operation, path)
            self._remove(operation, path, operation.version)
            above = _parent(path)
            if operation.is_with_place and self._kind(above) is _Kind.BARE and not any(self._children(above)):
                self._remove(operation, above)
        else:
            self._ask(operation, serialization.CheckVersion(znode, operation.version))

    def _ask(self, operation: Operation, request: object) -> None:
        self.steps.append(Step(request, operation))

    def _make_parents(self, operation: Create) -> None:
        for above in reversed(list(ancestors(operation.path))):
            if self._kind(above) is None:
                self._ask(operation, serialization.Create(self._root + above, None, self._acl, 0))
                self._place(above, _Kind.BARE)

    def _clear_below(self, operation: Operation, path: str) -> None:
        for child in sorted(self._children(path)):
            self._clear_below(operation, child)
            self._remove(operation, child)

    def _remove(self, operation: Operation, path: str, version: int = -1) -> None:
        self._ask(operation, serialization.Delete(self._root + path, version))
        self._kinds[path] = None

    def _place(self, path: str, kind: _Kind) -> None:
        self._kinds[path] = kind
        self._made[_parent(path)].add(path)

    def _kind(self, path: str) -> _Kind | None:
        if path in self._kinds:
            return self._kinds[path]
        if path in self._shadow.nodes:
            return _Kind.NODE
        return _Kind.BARE if path in self._shadow.bare else None

    def _children(self, path: str) -> Iterator[str]:
        for child in self._shadow.children(path) | self._made[path]:
            if self._kind(child) is not None:
                yield child

    def _has_nodes_below(self, path: str) -> bool:
        return any(
            self._kind(child) is _Kind.NODE or self._has_nodes_below(child) for child in tuple(self._children(path))
        )


def _parent(path: str) -> str:
    return path[: path.rfind("/")]
