"""Real clients copy a topic to another in transactions while copiers are killed; each record comes exactly once.

`make test-exactly-once` copies more, kills brokers, too, and has one broker and three (`COPY_RECORDS`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.copier_run import CLIENTS, CopyRun
from tests.clients.own_broker import need_apis, need_client, own_broker

RECORD_COUNT = int(os.environ.get("COPY_RECORDS", "400"))
PER_SECOND = 1000
TIMEOUT_S = 90.0 + RECORD_COUNT / 50
OPTIONS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
TRANSACTION_APIS = {24, 25, 26, 28}
SECOND_GENERATION = {"tailrace", "kafka-clients 4"}
"""Clients that have a new epoch for each transaction (KIP-890) where the broker offers that."""
NEEDS = {"kafka-clients 4": "java", "kafka-clients 3.9": "java", "franz-go": "go"}

pytestmark = [pytest.mark.exact, pytest.mark.slow, pytest.mark.timeout(int(TIMEOUT_S * 3) + 600)]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker in a process of its own."""
    with own_broker(OPTIONS) as servers:
        yield servers


def marks(client: str) -> list[pytest.MarkDecorator]:
    """Give what a client needs; a quick run has Tailrace's own client alone."""
    slow = [] if client == "tailrace" else [pytest.mark.slow]
    return [*slow, pytest.mark.needs(NEEDS[client])] if client in NEEDS else slow


@pytest.mark.parametrize(
    "client", [pytest.param(name, id=name.replace(" ", "-"), marks=marks(name)) for name in CLIENTS]
)
def test_each_record_is_copied_exactly_once(client: str, bootstrap: str, tmp_path: Path) -> None:
    """One copier is killed with kill -9, and another is stopped and goes on as a zombie."""
    need_client(CLIENTS[client])
    need_apis(bootstrap, TRANSACTION_APIS, "transactions")
    name = f"copy-{uuid.uuid4().hex[:8]}"
    with CopyRun(bootstrap, client, name, tmp_path, count=RECORD_COUNT, per_second=PER_SECOND) as run:
        run.wait_until_copied(RECORD_COUNT // 4, TIMEOUT_S)
        run.kill(0)
        run.wait_until_copied(RECORD_COUNT // 2, TIMEOUT_S)
        run.fence(1)
        count, digest = run.finish(TIMEOUT_S)
        assert count == RECORD_COUNT
        if client in SECOND_GENERATION:
            assert run.epoch_sum() >= sum(run.transaction_counts.values())
        print(f"{client} | {count:,} | {digest[:12]} | {run.restart_count} | {run.transaction_counts}")
