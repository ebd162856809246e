"""A member of a group through confluent-kafka; `member.md` says what it does."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaError, KafkaException

# The group went on without this member, or its broker is away: the next commit says the same and more.
PASSING = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._NO_OFFSET,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._WAIT_COORD,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.STALE_MEMBER_EPOCH,
)


def main(bootstrap: str, topic: str, group: str, protocol: str, assignor: str, session_ms: str) -> None:
    settings: dict[str, str | int | float | bool | None] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": int(session_ms), "heartbeat.interval.ms": int(session_ms) // 4}
    if assignor != "default":
        settings["partition.assignment.strategy" if protocol == "classic" else "group.remote.assignor"] = assignor
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    while True:
        messages = consumer.consume(500, 0.2)
        read = [message for message in messages if message.error() is None]
        if not read:
            continue
        print("\n".join(f"{message.partition()} {message.offset()}" for message in read), flush=True)
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() not in PASSING and not refused.args[0].retriable():
                raise


if __name__ == "__main__":
    main(*sys.argv[1:])
