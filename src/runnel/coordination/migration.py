"""Metadata from one store into another, so that a broker that was alone can join others.

Nothing is changed in the store that it comes from, and what is there already is passed over if it
is the same. So a copy that was cut can be made again.
"""

import json
from collections.abc import Callable, Iterator, Mapping

from runnel.base.limits import MIGRATION_COMMIT_BYTES_MAX
from runnel.coordination.layout import ADMITTED, CLUSTER_ID
from runnel.coordination.store import Create, MetadataStore, Node


class MigrationRefused(Exception):  # noqa: N818  says why
    """The target holds something else."""


async def copy_metadata(source: MetadataStore, target: MetadataStore, copied: Callable[[int], None]) -> None:
    """Make all nodes of `source` in `target`; `copied` hears after each commit how many it made."""
    # Whom the controller has admitted is told in the transaction numbers of the store, and means nothing in another.
    nodes = {path: node for path, node in (await source.tree("/")).items() if not path.startswith(ADMITTED)}
    there = await target.tree("/")
    _check_cluster(nodes, there)
    for path in nodes.keys() & there.keys():
        if nodes[path].value != there[path].value:
            raise MigrationRefused(f"{path} is there already, with another content; nothing was overwritten")
    # The cluster id comes first: whoever asks an unfinished copy learns whose it is.
    missing = sorted(nodes.keys() - there.keys(), key=lambda path: (path != CLUSTER_ID, path))
    for group in _groups({path: nodes[path] for path in missing}):
        await target.commit(group)
        copied(len(group))


def _check_cluster(nodes: Mapping[str, Node], there: Mapping[str, Node]) -> None:
    if CLUSTER_ID not in nodes:
        raise MigrationRefused("there is no cluster to copy: the broker has never been started")
    if CLUSTER_ID in there and _cluster_id(there) != _cluster_id(nodes):
        raise MigrationRefused(
            f"it belongs to cluster {_cluster_id(there)} already, and the broker to {_cluster_id(nodes)}; "
            "give the broker's cluster a place of its own, such as HOST:PORT/NAME"
        )
    if CLUSTER_ID not in there and (other := sorted(there.keys() & nodes.keys())):
        raise MigrationRefused(f"there is {other[0]} already, but no cluster id, so nobody knows whose it is")


def _cluster_id(nodes: Mapping[str, Node]) -> str:
    found: str = json.loads(nodes[CLUSTER_ID].value)["id"]
    return found


def _groups(nodes: Mapping[str, Node]) -> Iterator[list[Create]]:
    group: list[Create] = []
    size_bytes = 0
    for path, node in nodes.items():
        size_bytes += len(path) + len(node.value)
        if group and size_bytes > MIGRATION_COMMIT_BYTES_MAX:
            yield group
            group, size_bytes = [], len(path) + len(node.value)
        group.append(Create(path, node.value))
    if group:
        yield group
