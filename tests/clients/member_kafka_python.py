"""A member of a group through kafka-python; `member.md` says what it does."""

from __future__ import annotations

import sys

from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import CommitFailedError, KafkaError

from kafka import KafkaConsumer


def main(bootstrap: str, topic: str, group: str, _protocol: str, assignor: str, session_ms: str) -> None:
    settings = {"partition_assignment_strategy": [RangePartitionAssignor]} if assignor == "range" else {}
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=int(session_ms),
        heartbeat_interval_ms=int(session_ms) // 4,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        **settings,
    )
    while True:
        # Long enough for a rebalance: kafka-python 3.0.12 forgets a join that is answered after its poll has ended, if
        # new metadata made it join. It then takes itself for a member, and neither reads nor sends heartbeats.
        polled = consumer.poll(10_000)
        if not polled:
            continue
        for records in polled.values():
            print("\n".join(f"{record.partition} {record.offset}" for record in records), flush=True)
        try:
            consumer.commit()
        except CommitFailedError:
            pass
        except KafkaError as refused:
            if not refused.retriable:
                raise


if __name__ == "__main__":
    main(*sys.argv[1:])
