"""The copy of metadata from one store to another, with which a standalone broker joins a cluster.

The source is not changed, and nodes that the target already has with the same value are skipped. So
an interrupted copy can be repeated.
"""

import json
from collections.abc import Callable, Iterator, Mapping

from tailrace.base.limits import MIGRATION_COMMIT_BYTES_MAX
from tailrace.coordination.layout import ADMITTED, CLUSTER_ID
from tailrace.coordination.store import Create, MetadataStore, Node


class MigrationRefused(Exception):
    """The target holds other metadata."""


async def copy_metadata(source: MetadataStore, target: MetadataStore, copied: Callable[[int], None]) -> None:
    """Create all nodes of `source` in `target`; call `copied` after each commit with the number of nodes."""
    # Admissions of brokers contain transaction numbers of the source, which have no meaning in the target.
    nodes = {path: node for path, node in (await source.tree("/")).items() if not path.startswith(ADMITTED)}
    there = await target.tree("/")
    _check_cluster(nodes, there)
    for path in nodes.keys() & there.keys():
        if nodes[path].value != there[path].value:
            raise MigrationRefused(f"{path} already exists in the target with another value; it was not overwritten")
    # The cluster id comes first, so that an incomplete copy shows which cluster it belongs to.
    missing = sorted(nodes.keys() - there.keys(), key=lambda path: (path != CLUSTER_ID, path))
    for group in _groups({path: nodes[path] for path in missing}):
        await target.commit(group)
        copied(len(group))


def _check_cluster(nodes: Mapping[str, Node], there: Mapping[str, Node]) -> None:
    if CLUSTER_ID not in nodes:
        raise MigrationRefused("there is no metadata to copy: the broker has never been started")
    if CLUSTER_ID in there and _cluster_id(there) != _cluster_id(nodes):
        raise MigrationRefused(
            f"the target already belongs to cluster {_cluster_id(there)}, but the broker to {_cluster_id(nodes)}; "
            "give the broker's cluster a path of its own, such as HOST:PORT/NAME"
        )
    if CLUSTER_ID not in there and (other := sorted(there.keys() & nodes.keys())):
        raise MigrationRefused(f"the target has {other[0]} but no cluster id, so its owner is unknown")


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
