"""Topics and settings through the client."""

import asyncio
import time

import pytest

from tailrace.client.admin.core import Admin, ConfigSource, ConfigSynonym, CreatedTopic, NewTopic, ResourceType
from tailrace.client.cluster import Cluster
from tailrace.client.metadata import Topic
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.testing import Broker


def code(outcome: object) -> ErrorCode:
    assert isinstance(outcome, ApiError), outcome
    return outcome.code


async def own_settings(admin: Admin, topic: str, expected: dict[str, str]) -> dict[str, str | None]:
    """The settings of a topic itself; brokers of a real cluster learn of them a moment later."""
    deadline_s = time.monotonic() + 60
    while True:
        configs = await admin.describe_configs(ResourceType.TOPIC, topic)
        own = {config.name: config.value for config in configs if config.source == ConfigSource.TOPIC}
        if own == expected or time.monotonic() > deadline_s:
            return own
        await asyncio.sleep(0.02)


def test_the_life_of_a_topic(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        async with Cluster(bootstrap) as cluster:
            admin = Admin(cluster)
            new = NewTopic(topic, 2, 1, {"retention.ms": "1000"})
            assert isinstance((await admin.create_topics([new], validate_only=True))[topic], CreatedTopic)
            assert code((await admin.describe_topics([topic]))[topic]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            created = (await admin.create_topics([new]))[topic]
            assert isinstance(created, CreatedTopic)
            assert (created.partition_count, created.replication_factor) == (2, 1)
            assert code((await admin.create_topics([new]))[topic]) is ErrorCode.TOPIC_ALREADY_EXISTS
            assert await own_settings(admin, topic, {"retention.ms": "1000"}) == {"retention.ms": "1000"}
            changes = {"retention.ms": None, "max.message.bytes": "5000"}
            await admin.alter_configs(ResourceType.TOPIC, topic, changes)
            assert await own_settings(admin, topic, {"max.message.bytes": "5000"}) == {"max.message.bytes": "5000"}
            assert (await admin.create_partitions({topic: 3}))[topic] is None
            assert code((await admin.create_partitions({topic: 2}))[topic]) is ErrorCode.INVALID_PARTITIONS
            found = (await admin.describe_topics([topic]))[topic]
            assert isinstance(found, Topic)
            assert found.topic_id == created.topic_id
            assert [(partition.index, partition.replicas) for partition in found.partitions] == [
                (0, (1,)),
                (1, (1,)),
                (2, (1,)),
            ]
            assert topic in [listed.name for listed in await admin.list_topics()]
            assert (await admin.delete_topics([topic]))[topic] is None
            assert code((await admin.delete_topics([topic]))[topic]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert topic not in [listed.name for listed in await admin.list_topics()]

    asyncio.run(run())


def test_numbers_that_are_not_given_are_the_brokers(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        async with Cluster(bootstrap) as cluster:
            created = (await Admin(cluster).create_topics([NewTopic(topic)]))[topic]
            assert isinstance(created, CreatedTopic)
            assert (created.partition_count, created.replication_factor) == (1, 1)

    asyncio.run(run())


def test_bad_settings_are_refused(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        async with Cluster(bootstrap) as cluster:
            admin = Admin(cluster)
            bad = await admin.create_topics([NewTopic(topic, configs={"no.such.setting": "1"})])
            assert code(bad[topic]) is ErrorCode.INVALID_CONFIG
            await admin.create_topics([NewTopic(topic)])
            with pytest.raises(ApiError, match="INVALID_CONFIG"):
                await admin.alter_configs(ResourceType.TOPIC, topic, {"retention.ms": "soon"})
            with pytest.raises(ApiError):
                await admin.describe_configs(ResourceType.TOPIC, f"{topic}-not-there")

    asyncio.run(run())


def test_a_broker_has_settings_too(bootstrap: str) -> None:
    async def run() -> None:
        async with Cluster(bootstrap) as cluster:
            configs = await Admin(cluster).describe_configs(ResourceType.BROKER, "1")
            by_name = {config.name: config for config in configs}
            assert by_name["num.partitions"].value == "1"
            assert by_name["log.dirs"].is_read_only

    asyncio.run(run())


def test_a_config_has_synonyms_and_a_group_configs(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        async with Cluster(bootstrap) as cluster:
            admin = Admin(cluster)
            await admin.alter_configs(ResourceType.GROUP, topic, {"consumer.session.timeout.ms": "50000"})
            deadline_s = time.monotonic() + 60
            while topic not in await admin.list_config_resources(ResourceType.GROUP):
                assert time.monotonic() < deadline_s
                await asyncio.sleep(0.02)
            configs = await admin.describe_configs(ResourceType.GROUP, topic, include_synonyms=True)
            config = next(config for config in configs if config.name == "consumer.session.timeout.ms")
            assert config.source == ConfigSource.GROUP
            assert config.synonyms[0] == ConfigSynonym(config.name, "50000", ConfigSource.GROUP)
            await admin.alter_configs(ResourceType.GROUP, topic, {"consumer.session.timeout.ms": None})

    asyncio.run(run())


def test_a_controller_that_moves_is_looked_for(tailrace_broker: Broker, topic: str) -> None:
    async def run() -> None:
        async with Cluster(tailrace_broker.bootstrap_servers, retry_backoff_ms=1) as cluster:
            fault = tailrace_broker.inject("CREATE_TOPICS", error="NOT_CONTROLLER", count=2)
            assert isinstance((await Admin(cluster).create_topics([NewTopic(topic)]))[topic], CreatedTopic)
            assert fault.hits == 2
            fault = tailrace_broker.inject("DELETE_TOPICS", error="NOT_CONTROLLER", count=1)
            assert (await Admin(cluster).delete_topics([topic]))[topic] is None
            assert fault.hits == 1

    asyncio.run(run())
