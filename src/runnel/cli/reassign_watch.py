"""How far the partitions of a plan have come, once or until they are there."""

import asyncio
import sys
from collections.abc import Collection, Mapping
from typing import NamedTuple

from runnel.client.admin import Admin
from runnel.client.admin_reassignment import Reassignment
from runnel.client.cluster import Cluster
from runnel.client.replica_size import find_replica_sizes, progress_of
from runnel.client.topic_partition import TopicPartition

_LOOK_AGAIN_S = 1.0


class Moves(NamedTuple):
    """The partitions on their way, and which part of each has arrived."""

    moving: Mapping[TopicPartition, Reassignment]
    progress: Mapping[TopicPartition, float]


async def watch(cluster: Cluster, wanted: Collection[TopicPartition], *, is_waiting: bool) -> Moves:
    """Look how far some partitions are; with `is_waiting` again and again until none is on its way."""
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
    """The partitions of a plan that are on their way now."""
    all_moving = await Admin(cluster).list_partition_reassignments()
    moving = {partition: move for partition, move in all_moving.items() if partition in wanted}
    sizes = await find_replica_sizes(cluster, moving) if moving else {}
    return Moves(moving, {partition: progress_of(partition, move, sizes) for partition, move in moving.items()})
