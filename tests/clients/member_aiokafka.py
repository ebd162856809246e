"""A member of a group through aiokafka; `member.md` says what it does."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError


class Turn(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Keeps partitions until what was taken of them is committed."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()

    async def on_partitions_revoked(self, revoked: Any) -> None:
        async with self.lock:
            pass

    async def on_partitions_assigned(self, assigned: Any) -> None:
        pass


async def main(bootstrap: str, topic: str, group: str, _protocol: str, assignor: str, session_ms: str) -> None:
    settings = {"partition_assignment_strategy": [RangePartitionAssignor]} if assignor == "range" else {}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=int(session_ms),
        heartbeat_interval_ms=int(session_ms) // 4,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        **settings,
    )
    turn = Turn()
    consumer.subscribe([topic], listener=turn)
    await consumer.start()
    while True:
        # Not with the lock: it waits for the end of a rebalance, which waits for the lock.
        taken = await consumer.getmany(timeout_ms=200, max_records=500)
        async with turn.lock:
            await _use(consumer, taken)


async def _use(consumer: Any, taken: dict[Any, list[Any]]) -> None:
    if not taken:
        return
    for records in taken.values():
        print("\n".join(f"{record.partition} {record.offset}" for record in records), flush=True)
    try:
        await consumer.commit({partition: records[-1].offset + 1 for partition, records in taken.items()})
    except (CommitFailedError, IllegalStateError):
        pass
    except KafkaError as refused:
        if not refused.retriable:
            raise


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
