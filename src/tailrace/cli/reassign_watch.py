"""The progress of a reassignment plan."""

import asyncio
import sys
from collections.abc import Collection, Mapping
from typing import NamedTuple

from tailrace.client.admin.core import Admin
from tailrace.client.admin.reassignment import Reassignment
from tailrace.client.admin.replica_size import find_replica_sizes, progress_of
from tailrace.client.cluster import Cluster
from tailrace.client.topic_partition import TopicPartition

_LOOK_AGAIN_S = 1.0


class Moves(NamedTuple):
    """The partitions in progress, and the fraction of each that was copied."""

    moving: Mapping[TopicPartition, Reassignment]
    progress: Mapping[TopicPartition, float]


async def watch(cluster: Cluster, wanted: Collection[TopicPartition], *, is_waiting: bool) -> Moves:
    """Return the progress of partitions; with `is_waiting`, poll until none is in progress."""
    moves = await look(cluster, wanted)
    if not is_waiting or not moves.moving:
        return moves
    if not sys.stderr.isatty():
        while moves.moving:
            await asyncio.sleep(_LOOK_AGAIN_S)
            moves = await look(cluster, wanted)
        return moves
    return await _watch_with_bar(cluster, wanted, moves)


async def _watch_with_bar(cluster: Cluster, wanted: Collection[TopicPartition], moves: Moves) -> Moves:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(_title(moves), total=len(wanted))
        while moves.moving:
            arrived = len(wanted) - len(moves.moving) + sum(moves.progress.values())
            bar.update(task, completed=arrived, description=_title(moves))
            await asyncio.sleep(_LOOK_AGAIN_S)
            moves = await look(cluster, wanted)
    return moves


def _title(moves: Moves) -> str:
    return f"{len(moves.moving)} on their way"


async def look(cluster: Cluster, wanted: Collection[TopicPartition]) -> Moves:
    """Return the partitions of a plan that are in progress."""
    all_moving = await Admin(cluster).list_partition_reassignments()
    moving = {partition: move for partition, move in all_moving.items() if partition in wanted}
    sizes = await find_replica_sizes(cluster, moving) if moving else {}
    return Moves(moving, {partition: progress_of(partition, move, sizes) for partition, move in moving.items()})
