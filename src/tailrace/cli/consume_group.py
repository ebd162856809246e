"""`tailrace consume --group`: print records as a member of a consumer group."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.cli.record_format import Format

if TYPE_CHECKING:
    from tailrace.client.fetch.aio import Consumer
    from tailrace.client.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupJob:
    """What to print, and when to stop. Every record that was polled is printed, also beyond the end."""

    topic: str
    count: int | None
    until_end: bool
    format: Format


async def print_shared(consumer: "Consumer", job: GroupJob) -> None:
    """Print records up to the requested count, or until interrupted, and commit their offsets."""
    try:
        partitions = [(job.topic, number) for number in await consumer.partitions_for(job.topic)]
        ends = await consumer.end_offsets(partitions) if job.until_end else {}
        consumer.subscribe(job.topic)
        await _print(consumer, job, ends)
    finally:
        sys.stdout.flush()
        await consumer.close()


async def _print(consumer: "Consumer", job: GroupJob, ends: "Mapping[TopicPartition, int]") -> None:
    from tailrace.records.record import Record

    left = job.count
    write = sys.stdout.buffer.write
    while left is None or left > 0:
        for record in await consumer.poll(0.5, left):
            plain = Record(record.offset, record.timestamp_ms, record.key, record.value, record.headers)
            write(job.format(job.topic, record.partition, plain))
            if left is not None:
                left -= 1
        sys.stdout.flush()
        if job.until_end and await _is_at_end(consumer, ends):
            return


async def _is_at_end(consumer: "Consumer", ends: "Mapping[TopicPartition, int]") -> bool:
    """Return whether this member has read its partitions up to their end offsets at the start."""
    assigned = consumer.assignment()
    return bool(assigned) and all([await consumer.position(*target) >= ends.get(target, 0) for target in assigned])
