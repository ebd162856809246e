"""The log lines of what an administrator changes, and of what retention deletes: one each, at INFO."""

import logging
from collections.abc import Callable

import pytest
from tests.unit.sample import NOW_MS, make_batch
from tests.unit.server.handlers.peer import Peer, peer

from tailrace.protocol.messages.config import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tailrace.protocol.messages.topic import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
)
from tailrace.runtime.log.care import LogCare

SET, DELETE = 0, 1
TOPIC, BROKER, GROUP = 2, 4, 32
DAY_MS = 24 * 3600 * 1000
Lines = Callable[[], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """What was logged since the last call, at INFO and above; the audit log tells the same with the client."""
    caplog.set_level(logging.INFO, "tailrace")

    def taken() -> list[str]:
        found = [
            record.getMessage()
            for record in caplog.records
            if record.name.startswith("tailrace") and record.name != "tailrace.audit"
        ]
        caplog.clear()
        return found

    return taken


async def _alter(client: Peer, kind: int, name: str, *changes: tuple[str, int, str | None]) -> None:
    configs = [
        IncrementalAlterConfigsRequestConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = IncrementalAlterConfigsRequestResource(resource_type=kind, resource_name=name, configs=configs)
    response = await client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == 0


async def test_a_topic_is_created_grown_and_deleted(lines: Lines) -> None:
    async with peer() as client:
        lines()
        await client.create("t", 3)
        assert lines() == ["created topic t with 3 partitions and replication factor 1"]
        growth = CreatePartitionsRequest(topics=[CreatePartitionsRequestTopic(name="t", count=5, assignments=None)])
        await client.ask(growth)
        assert lines() == ["topic t now has 5 partitions"]
        await client.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")]))
        assert lines() == ["deleted topic t"]


async def test_what_is_only_validated_is_not_logged(lines: Lines) -> None:
    async with peer() as client:
        await client.create("t")
        lines()
        new = CreateTopicsRequestTopic(name="u", num_partitions=1, replication_factor=1)
        await client.ask(CreateTopicsRequest(topics=[new], validate_only=True))
        growth = CreatePartitionsRequestTopic(name="t", count=5, assignments=None)
        await client.ask(CreatePartitionsRequest(topics=[growth], validate_only=True))
        assert lines() == []


async def test_configs_are_changed(lines: Lines) -> None:
    async with peer() as client:
        await client.create("t", retention_ms="1")
        lines()
        await _alter(
            client, TOPIC, "t", ("retention.ms", DELETE, None), ("segment.ms", SET, "7"), ("flush.ms", SET, "5")
        )
        assert lines() == ["changed configs of topic t: flush.ms=5, segment.ms=7, retention.ms removed"]
        await _alter(client, TOPIC, "t", ("segment.ms", SET, "7"))
        assert lines() == []
        await _alter(client, BROKER, "1", ("log.retention.ms", SET, "9"))
        assert lines() == ["changed configs of broker 1: log.retention.ms=9"]
        await _alter(client, BROKER, "", ("log.retention.ms", SET, "9"))
        assert lines() == ["changed configs of all brokers: log.retention.ms=9"]
        await _alter(client, GROUP, "a\nb", ("consumer.session.timeout.ms", SET, "50000"))
        assert lines() == ["changed configs of group a\\nb: consumer.session.timeout.ms=50000"]


async def test_segments_are_deleted_by_retention(lines: Lines) -> None:
    async with peer() as client:
        await client.create("t", retention_ms=str(DAY_MS), segment_ms="1000")
        for number in range(3):
            await client.produce(make_batch(b"old", timestamp=NOW_MS + 2000 * number))
        client.machine.clock.time_ms += 2 * DAY_MS
        await client.produce(make_batch(b"new", timestamp=NOW_MS + 2 * DAY_MS))
        lines()
        broker = client.broker
        care = LogCare(
            broker.config, broker.clock, broker.replicas, broker.log_dirs, broker.worker, broker.folder_worker
        )
        await care.apply_retention()
        assert lines() == ["t-0: retention deleted 3 segments; the first offset is 3"]
        await care.apply_retention()
        assert lines() == []
