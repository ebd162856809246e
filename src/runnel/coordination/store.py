"""What the cluster agrees on: a small tree of versioned nodes.

The interface is the part of ZooKeeper that Runnel needs, because more than one broker
coordinates through ZooKeeper: paths, opaque values, a version a node that counts its
writes, and groups of operations that happen together or not at all. A single broker has
the same semantics from an embedded store, so nothing above knows which one it talks to.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

ANY_VERSION = -1
"""Skips the version check of a `Put` or a `Delete`."""


class Node(NamedTuple):
    """A value and how many times it has been written since it was created."""

    value: bytes
    version: int


class Change(NamedTuple):
    """What a watcher is told: the node now there, or None when it is gone."""

    path: str
    node: Node | None


class NodeExistsError(Exception):
    """A `Create` found the path taken."""


class NoNodeError(Exception):
    """A `Put`, `Delete` or `Check` found nothing at the path."""


class BadVersionError(Exception):
    """Somebody else wrote the node first."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make a node that must not be there yet; its version is 0."""

    path: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Put:
    """Write a node that is there, at the version the writer last saw."""

    path: str
    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a node, at the version the writer last saw."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Check:
    """Change nothing, but fail the group when the node has moved on."""

    path: str
    version: int


Operation = Create | Put | Delete | Check
Watcher = Callable[[Sequence[Change]], None]


class MetadataStore(Protocol):
    """Durable cluster metadata with compare-and-set."""

    async def get(self, path: str) -> Node | None:
        """The node at `path`, or None."""
        ...

    async def tree(self, path: str) -> dict[str, Node]:
        """Every node at or below `path`, by its full path."""
        ...

    async def commit(self, operations: Sequence[Operation]) -> None:
        """Do all of `operations` or none; when this returns they are durable.

        Raises NodeExistsError, NoNodeError or BadVersionError, and then nothing has happened.
        """
        ...

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` on the event loop after every commit, in commit order."""
        ...

    async def close(self) -> None:
        """Let go of the store; what was committed stays."""
        ...
