"""A member of a group through our own client; `member.md` says what it does."""

from __future__ import annotations

import sys

from tailrace import Consumer
from tailrace.client.error import CommitFailed
from tailrace.protocol.errors import ApiError


def main(bootstrap: str, topic: str, group: str, protocol: str, assignor: str, session_ms: str) -> None:
    settings: dict[str, str | int] = {}
    if protocol == "classic":
        settings |= {"session.timeout.ms": int(session_ms), "heartbeat.interval.ms": int(session_ms) // 4}
    if assignor != "default":
        settings["partition.assignment.strategy" if protocol == "classic" else "group.remote.assignor"] = assignor
    consumer = Consumer(
        bootstrap,
        config=settings,
        group_id=group,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
    ).subscribe(topic)
    while True:
        records = consumer.poll(0.2)
        if not records:
            continue
        print("\n".join(f"{record.partition} {record.offset}" for record in records), flush=True)
        try:
            consumer.commit()
        except CommitFailed:
            pass
        except ApiError as refused:
            if not refused.code.retriable:
                raise


if __name__ == "__main__":
    main(*sys.argv[1:])
