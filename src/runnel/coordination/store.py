"""What the cluster agrees on: a small tree of versioned nodes.

The interface is the part of ZooKeeper that Runnel needs, because more than one broker
coordinates through ZooKeeper: paths, opaque values, a version a node that counts its
writes, groups of operations that happen together or not at all, and nodes that go when
the session of their maker ends. A single broker has the same semantics from an embedded
store, so nothing above knows which one it talks to.

What `get` and `tree` return is what the watchers have been told so far, no less and no
more; so who reads a tree and then watches, without waiting in between, misses nothing.
Other brokers may be ahead. Nobody decides on an old state by accident all the same,
because writes say which version they were decided on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

ANY_VERSION = -1
"""Skips the version check of a `Put`, a `Delete` or a `Check`."""


class Node(NamedTuple):
    """A value, how many times it has been written since it was created, and by which transaction that was.

    `created` is a number that rises with every transaction that creates something, so a node that was removed and
    made again has a higher one.
    """

    value: bytes
    version: int
    created: int = 0


class Change(NamedTuple):
    """What a watcher is told: the node now there, or None when it is gone."""

    path: str
    node: Node | None


class SessionState(Enum):
    """How this process stands with the store."""

    CONNECTED = "connected"
    """The session lives, and watchers have been told how things are."""
    SUSPENDED = "suspended"
    """Nothing is heard from the store. The session lives on until its time is over, as far as one can tell."""
    EXPIRED = "expired"
    """The session is over, and what was ephemeral in it is gone. The store opens another by itself."""


class NodeExistsError(Exception):
    """A `Create` found the path taken, by a node or by nodes below it."""


class NoNodeError(Exception):
    """A `Put`, `Delete` or `Check` found nothing at the path."""


class NotEmptyError(Exception):
    """A `Delete` found nodes below the path."""


class BadVersionError(Exception):
    """Somebody else wrote the node first."""


class EphemeralParentError(Exception):
    """A `Create` would stand below an ephemeral node."""


class CommitTooLargeError(Exception):
    """A group is larger than the store takes at once; nothing has happened."""


class OutcomeUnknown(Exception):  # noqa: N818  nobody says that it failed
    """The connection broke while a commit was under way: it may have happened, and it may not.

    Once the store says that it is connected again, its watchers have been told which.
    """


class NotConnectedError(OutcomeUnknown):
    """There is no connection, and nothing has happened.

    Who is prepared not to know the outcome is prepared for this as well.
    """


class StoreUnreachableError(Exception):
    """The store cannot be opened: it does not answer, or it does not let this process in."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make a node that must not be there yet; its version is 0.

    Nodes above it need not be there. An ephemeral node goes when the session ends, and nothing stands below it.
    """

    path: str
    value: bytes
    is_ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """Write a node that is there, at the version the writer last saw."""

    path: str
    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a node with nothing below it, at the version the writer last saw.

    The path right above may be nothing but the way to it. Where a store keeps such places, `is_with_place` removes it.
    """

    path: str
    version: int
    is_with_place: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """Change nothing, but fail the group when the node has moved on."""

    path: str
    version: int


Operation = Create | Put | Delete | Check
Watcher = Callable[[Sequence[Change]], None]
SessionListener = Callable[[SessionState], None]


class MetadataStore(Protocol):
    """Durable cluster metadata with compare-and-set."""

    @property
    def session_state(self) -> SessionState:
        """What session listeners were told last."""
        ...

    async def get(self, path: str) -> Node | None:
        """The node at `path`, or None, as watchers have been told of it."""
        ...

    async def tree(self, path: str) -> dict[str, Node]:
        """Every node at or below `path`, by its full path, as watchers have been told of them."""
        ...

    async def commit(self, operations: Sequence[Operation]) -> None:
        """Do all of `operations` or none; when this returns they are durable, and own watchers have been told.

        Raises NodeExistsError, NoNodeError, NotEmptyError, BadVersionError, EphemeralParentError or
        CommitTooLargeError, and then nothing has happened and own watchers have been told of what stood in the way.
        Raises OutcomeUnknown when the connection broke in the middle of it. An empty group changes nothing, and own
        watchers have been told of all that others had done before it.
        """
        ...

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` on the event loop after every change, in the order in which they happened.

        A group that this store commits comes in one call, each path once, with what became of it. After the store was
        out of reach, what differs comes in one call, removals first; what came and went in the meantime is not told.
        """
        ...

    def lease_until_ms(self) -> float:
        """The time on the monotonic clock until which this process's session certainly lives."""
        ...

    def on_session(self, listener: SessionListener) -> None:
        """Call `listener` on the event loop when the session's state changes."""
        ...

    async def wait_connected(self) -> None:
        """Return when the session lives and watchers know how things are."""
        ...

    async def close(self) -> None:
        """End the session and let go of the store; what was committed stays, unless it was ephemeral."""
        ...
