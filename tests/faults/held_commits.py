"""Commits that the network holds until their consumer has repeated them and committed more: no offset goes back.

python -m tests.faults.held_commits --runs 100 --face asyncio
"""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from collections.abc import Sequence
from typing import Any

from tests.unit.client.conftest import MEMBERSHIPS, PATIENT_GROUPS, PATIENT_SESSION_MS
from tests.unit.client.face import Face
from tests.unit.client.lossy_proxy import LossyProxy, lossy_broker

import tailrace
from tailrace.protocol.api_key import ApiKey
from tailrace.testing import Broker

FACES = ("thread", "asyncio")
PATIENCE_S = 60.0
REQUEST_TIMEOUT_MS = 150


def run(proxy: LossyProxy, broker: Broker, face: str, protocol: str, run_count: int) -> list[str]:
    """Hold every other commit of one member, deliver it after the next, and return what went back."""
    topic = f"held-{uuid.uuid4().hex[:12]}"
    broker.create_topic(topic)
    broker.produce(topic, [b"a record"])
    settings: dict[str, Any] = {
        **MEMBERSHIPS[protocol],
        **({} if protocol == "consumer" else {"session_timeout_ms": PATIENT_SESSION_MS}),
        "group_id": topic,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 2,
    }
    wrong: list[str] = []
    with Face(face).consumer(broker.bootstrap_servers, **settings) as consumer:
        consumer.subscribe(topic)
        deadline_s = time.monotonic() + PATIENCE_S
        while not consumer.poll(timeout_s=0.1):
            if time.monotonic() > deadline_s:
                return ["the consumer has read nothing"]
        for offset in range(1, 2 * run_count, 2):
            proxy.hold(ApiKey.OFFSET_COMMIT)
            consumer.commit({(topic, 0): offset})
            consumer.commit({(topic, 0): offset + 1})
            proxy.deliver()
            found = consumer.committed()[tailrace.TopicPartition(topic, 0)].offset
            if found != offset + 1:
                wrong.append(f"offset {offset + 1} was acknowledged, and the group has {found}")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=100, help="held commits of each case")
    parser.add_argument("--face", choices=FACES, help="only this face")
    options = parser.parse_args(arguments)
    wrong_count = 0
    with lossy_broker(**PATIENT_GROUPS) as (proxy, broker):
        for face in FACES if options.face is None else (options.face,):
            for protocol in MEMBERSHIPS:
                wrong = run(proxy, broker, face, protocol, options.runs)
                wrong_count += len(wrong)
                print(*wrong, f"{face}, {protocol}: {options.runs} held commits", sep="\n", flush=True)
    print(f"{wrong_count} offsets went back")
    return 1 if wrong_count else 0


if __name__ == "__main__":
    sys.exit(main())
