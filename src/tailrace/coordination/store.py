"""The interface of the metadata store: a small tree of versioned nodes that the cluster shares.

The interface is the part of ZooKeeper that Tailrace needs, because several brokers coordinate
through ZooKeeper: paths, opaque values, a version of each node that counts its writes, groups of
operations that are applied together or not at all, and ephemeral nodes that are removed when the
session of their creator ends. An embedded store gives a single broker the same semantics, so no other
code depends on which store it uses.

`get` and `tree` return exactly what the watchers have been told so far, so a caller that reads a tree
and then watches, without an await in between, misses no change. Other brokers may be ahead. A
decision on stale data is still not written, because each write names the version that it is based on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

ANY_VERSION = -1
"""Skips the version check of a `Put`, a `Delete` or a `Check`."""


class Node(NamedTuple):
    """A value, the number of writes since the node was created, and the transaction that created it.

    `created` rises with every transaction that creates a node, so a node that was removed and created again
    has a higher value.
    """

    value: bytes
    version: int
    created: int = 0


class Change(NamedTuple):
    """A notification for watchers: the new node, or None if it was removed."""

    path: str
    node: Node | None


class SessionState(Enum):
    """The state of this process's session with the store."""

    CONNECTED = "connected"
    """The session exists, and watchers are up to date."""
    SUSPENDED = "suspended"
    """The store does not respond. As far as this process knows, the session exists until its timeout."""
    EXPIRED = "expired"
    """The session has ended, and its ephemeral nodes are removed. The store opens another one by itself."""


class NodeExistsError(Exception):
    """A `Create` found a node at the path, or nodes below it."""


class NoNodeError(Exception):
    """A `Put`, `Delete` or `Check` found no node at the path."""


class NotEmptyError(Exception):
    """A `Delete` found nodes below the path."""


class BadVersionError(Exception):
    """Another process wrote the node first."""


class EphemeralParentError(Exception):
    """A `Create` would put a node below an ephemeral one."""


class CommitTooLargeError(Exception):
    """A group of operations is larger than the store accepts; nothing was changed."""


class OutcomeUnknown(Exception):
    """The connection broke during a commit, which may or may not have been applied.

    When the store reports that it is connected again, its watchers have been told the outcome.
    """


class NotConnectedError(OutcomeUnknown):
    """There is no connection, and nothing was changed.

    A caller that handles an unknown outcome handles this as well.
    """


class StoreUnreachableError(Exception):
    """The store cannot be opened: it does not respond, or denies access to this process."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create a node that must not exist yet; its version is 0.

    Nodes above it need not exist. An ephemeral node is removed when the session ends, and has no nodes below it.
    """

    path: str
    value: bytes
    is_ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """Write an existing node, at the version that the writer last saw."""

    path: str
    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a node without nodes below it, at the version that the writer last saw.

    The parent may be an empty path element. If the store keeps such elements, `is_with_place` removes it too.
    """

    path: str
    version: int
    is_with_place: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """Change nothing, but fail the group if the node has another version."""

    path: str
    version: int


Operation = Create | Put | Delete | Check
Watcher = Callable[[Sequence[Change]], None]
SessionListener = Callable[[SessionState], None]


class MetadataStore(Protocol):
    """Durable cluster metadata with compare-and-set."""

    @property
    def session_state(self) -> SessionState:
        """The last state that session listeners were told."""
        ...

    async def get(self, path: str) -> Node | None:
        """Return the node at `path`, or None, as watchers were last told."""
        ...

    async def tree(self, path: str) -> dict[str, Node]:
        """Return every node at or below `path`, by its full path, as watchers were last told."""
        ...

    async def commit(self, operations: Sequence[Operation]) -> None:
        """Apply all of `operations` or none. When this returns they are durable, and own watchers have been told.

        Raise NodeExistsError, NoNodeError, NotEmptyError, BadVersionError, EphemeralParentError or
        CommitTooLargeError if nothing was changed; own watchers have then been told of the conflicting change.
        Raise OutcomeUnknown if the connection broke meanwhile. An empty group changes nothing, and own watchers have
        then been told of all earlier changes of others.
        """
        ...

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` on the event loop after every change, in order.

        A group that this store commits arrives in one call, each path once, with the result. After the store was not
        reachable, all differences arrive in one call, removals first; nodes that were created and removed meanwhile are
        not reported.
        """
        ...

    def lease_until_ms(self) -> float:
        """Return the monotonic time until which this process's session certainly exists."""
        ...

    def on_session(self, listener: SessionListener) -> None:
        """Call `listener` on the event loop when the session's state changes."""
        ...

    async def wait_connected(self) -> None:
        """Wait until the session exists and watchers are up to date."""
        ...

    async def close(self) -> None:
        """End the session and release the store. Committed nodes remain, except ephemeral ones."""
        ...
