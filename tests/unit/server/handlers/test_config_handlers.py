"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from typing import Any

import pytest
from tests.unit.sample import LISTENER
from tests.unit.server.handlers.peer import Peer, peer

from tailrace.config.alter import AlterOperation
from tailrace.machines.controller.record import CLUSTER_DEFAULT, BrokerRecord, ConfigKind, Endpoint
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.config import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    ListConfigResourcesRequest,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND = AlterOperation.SET, AlterOperation.DELETE, AlterOperation.APPEND
TOPIC_SOURCE, BROKER_SOURCE, CLUSTER_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE, GROUP_SOURCE = 1, 2, 3, 4, 5, 8


async def describe(client: Peer, kind: int, name: str, *keys: str, **flags: bool) -> Any:
    """One resource; without keys, all of them."""
    asked = DescribeConfigsRequestResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) if keys else None
    )
    return (await client.ask(DescribeConfigsRequest(resources=[asked], **flags))).results[0]


async def value(client: Peer, kind: int, name: str, key: str) -> tuple[str | None, int]:
    """The value of a config and where it comes from."""
    (config,) = (await describe(client, kind, name, key)).configs
    return config.value, config.config_source


async def adjust(
    client: Peer, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> tuple[int, bool]:
    """IncrementalAlterConfigs of one resource: the error, and whether a message explains it."""
    configs = [
        IncrementalAlterConfigsRequestConfig(name=key, config_operation=operation, value=text)
        for key, operation, text in changes
    ]
    resource = IncrementalAlterConfigsRequestResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = (await client.ask(request)).responses
    return result.error_code, bool(result.error_message)


async def replace(client: Peer, kind: int, name: str, **values: str | None) -> int:
    """AlterConfigs of one resource; config names are written with underscores."""
    configs = [AlterConfigsRequestConfig(name=key.replace("_", "."), value=text) for key, text in values.items()]
    resource = AlterConfigsRequestResource(resource_type=kind, resource_name=name, configs=configs)
    (result,) = (await client.ask(AlterConfigsRequest(resources=[resource]))).responses
    return int(result.error_code)


# --- DescribeConfigs


async def test_a_topic_tells_its_configs_and_where_they_come_from() -> None:
    async with peer(log_segment_bytes="2000000") as client:
        await client.create("t", retention_ms="5")
        assert await value(client, TOPIC, "t", "retention.ms") == ("5", TOPIC_SOURCE)
        assert await value(client, TOPIC, "t", "segment.bytes") == ("2000000", STATIC_SOURCE)
        assert await value(client, TOPIC, "t", "cleanup.policy") == ("delete", DEFAULT_SOURCE)


async def test_only_the_keys_that_were_asked_for_are_told() -> None:
    async with peer() as client:
        await client.create("t")
        names = [config.name for config in (await describe(client, TOPIC, "t")).configs]
        assert {"retention.ms", "segment.bytes", "cleanup.policy"} <= set(names)
        assert len(set(names)) == len(names)
        some = (await describe(client, TOPIC, "t", "retention.ms", "no.such")).configs
        assert [config.name for config in some] == ["retention.ms"]


async def test_synonyms_and_documentation_are_told_on_demand() -> None:
    async with peer() as client:
        await client.create("t", retention_ms="5")
        (plain,) = (await describe(client, TOPIC, "t", "retention.ms")).configs
        assert (plain.synonyms, plain.documentation) == ([], None)
        (full,) = (
            await describe(client, TOPIC, "t", "retention.ms", include_synonyms=True, include_documentation=True)
        ).configs
        assert (full.synonyms[0].name, full.synonyms[0].value, full.synonyms[0].source) == ("retention.ms", "5", 1)
        assert full.documentation
        assert full.config_type == 5


async def test_the_broker_and_the_cluster_default() -> None:
    async with peer() as client:
        assert await value(client, BROKER, "1", "node.id") == ("1", STATIC_SOURCE)
        (read_only,) = (await describe(client, BROKER, "1", "num.partitions")).configs
        assert read_only.read_only
        assert [config.name for config in (await describe(client, BROKER, "")).configs] == ["min.insync.replicas"]
        assert (await describe(client, BROKER, "")).error_message == ""
        assert await adjust(client, BROKER, "", ("log.segment.bytes", SET, "3000000")) == (0, False)
        assert await value(client, BROKER, "", "log.segment.bytes") == ("3000000", CLUSTER_SOURCE)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (99, "t", ErrorCode.INVALID_REQUEST),
        (0, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_described_says_why(kind: int, name: str, code: int) -> None:
    async with peer() as client:
        result = await describe(client, kind, name)
        assert (result.error_code, bool(result.error_message), result.configs) == (code, True, [])
        assert (result.resource_type, result.resource_name) == (kind, name)


# --- IncrementalAlterConfigs


async def test_settings_are_set_and_deleted_one_by_one() -> None:
    async with peer() as client:
        await client.create("t", retention_ms="5")
        assert await adjust(client, TOPIC, "t", ("segment.ms", SET, "77")) == (0, False)
        assert await value(client, TOPIC, "t", "retention.ms") == ("5", TOPIC_SOURCE)
        assert await value(client, TOPIC, "t", "segment.ms") == ("77", TOPIC_SOURCE)
        assert await adjust(client, TOPIC, "t", ("retention.ms", DELETE, None)) == (0, False)
        assert await value(client, TOPIC, "t", "retention.ms") == ("604800000", DEFAULT_SOURCE)
        assert client.broker.replicas.get("t", 0).log.config.segment_ms == 77


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code"),
    [
        (TOPIC, "t", [("no.such", SET, "1")], ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", [("retention.ms", SET, "soon")], ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", [("segment.ms", SET, "77"), ("retention.ms", SET, "soon")], ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", [("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", [("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", [("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
        (TOPIC, "unknown", [("retention.ms", SET, "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", [("num.partitions", SET, "5")], ErrorCode.INVALID_REQUEST),
        (BROKER, "7", [("log.segment.bytes", SET, "2000000")], ErrorCode.INVALID_REQUEST),
        (BROKER, "1", [("no.such", SET, "5")], ErrorCode.INVALID_CONFIG),
        (99, "t", [("retention.ms", SET, "1")], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_bad_change_changes_nothing(
    kind: int, name: str, changes: list[tuple[str, int, str | None]], code: int
) -> None:
    async with peer() as client:
        await client.create("t")
        before = await client.broker.metadata.store.tree("/config")
        assert await adjust(client, kind, name, *changes) == (code, True)
        assert await client.broker.metadata.store.tree("/config") == before


async def test_what_is_only_validated_is_not_changed() -> None:
    async with peer() as client:
        await client.create("t")
        assert await adjust(client, TOPIC, "t", ("segment.ms", SET, "77"), validate_only=True) == (0, False)
        assert await adjust(client, TOPIC, "t", ("segment.ms", SET, "x"), validate_only=True) == (40, True)
        assert await value(client, TOPIC, "t", "segment.ms") == ("604800000", DEFAULT_SOURCE)


async def test_a_dynamic_default_of_the_broker_reaches_topics_that_exist() -> None:
    async with peer() as client:
        await client.create("t")
        await client.create("own", segment_bytes="4000000")
        assert await adjust(client, BROKER, "", ("log.segment.bytes", SET, "3000000")) == (0, False)
        assert await value(client, TOPIC, "t", "segment.bytes") == ("3000000", CLUSTER_SOURCE)
        assert await adjust(client, BROKER, "1", ("log.segment.bytes", SET, "2000000")) == (0, False)
        assert await value(client, TOPIC, "t", "segment.bytes") == ("2000000", BROKER_SOURCE)
        sizes = [client.broker.replicas.get(name, 0).log.config.segment_bytes for name in ("t", "own")]
        assert sizes == [2000000, 4000000]
        assert await adjust(client, BROKER, "1", ("log.segment.bytes", DELETE, None)) == (0, False)
        assert client.broker.replicas.get("t", 0).log.config.segment_bytes == 3000000


# --- AlterConfigs


async def test_all_settings_are_replaced() -> None:
    async with peer() as client:
        await client.create("t", retention_ms="5")
        assert await replace(client, TOPIC, "t", segment_ms="77") == 0
        assert await value(client, TOPIC, "t", "retention.ms") == ("604800000", DEFAULT_SOURCE)
        assert await value(client, TOPIC, "t", "segment.ms") == ("77", TOPIC_SOURCE)
        assert await replace(client, TOPIC, "t") == 0
        assert await client.broker.metadata.store.tree("/config") == {}


@pytest.mark.parametrize(
    ("kind", "name", "values", "code"),
    [
        (TOPIC, "t", {"retention_ms": "x"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", {"retention_ms": None}, ErrorCode.INVALID_REQUEST),
        (TOPIC, "u", {"retention_ms": "1"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", {"node_id": "5"}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_bad_replacement_replaces_nothing(
    kind: int, name: str, values: dict[str, str | None], code: int
) -> None:
    async with peer() as client:
        await client.create("t", segment_ms="9")
        assert await replace(client, kind, name, **values) == code
        assert await value(client, TOPIC, "t", "segment.ms") == ("9", TOPIC_SOURCE)


async def test_one_bad_resource_does_not_spoil_the_others() -> None:
    async with peer() as client:
        await client.create("t")
        resources = [
            AlterConfigsRequestResource(
                resource_type=TOPIC,
                resource_name=name,
                configs=[AlterConfigsRequestConfig(name="retention.ms", value="5")],
            )
            for name in ("unknown", "t")
        ]
        response = await client.ask(AlterConfigsRequest(resources=resources))
        assert [result.error_code for result in response.responses] == [3, 0]
        assert await value(client, TOPIC, "t", "retention.ms") == ("5", TOPIC_SOURCE)


# --- ListConfigResources


@pytest.mark.parametrize(
    ("types", "found"),
    [
        ([], {("b", TOPIC), ("a", TOPIC), ("1", BROKER), ("1", BROKER_LOGGER)}),
        ([TOPIC], {("b", TOPIC), ("a", TOPIC)}),
        ([BROKER], {("1", BROKER)}),
        ([CLIENT_METRICS, GROUP], set()),
    ],
)
async def test_what_can_be_configured(types: list[int], found: set[tuple[str, int]]) -> None:
    async with peer() as client:
        for name in ("b", "a"):
            await client.create(name)
        response = await client.ask(ListConfigResourcesRequest(resource_types=types))
        assert {(resource.resource_name, resource.resource_type) for resource in response.config_resources} == found


async def test_the_brokers_of_the_listener_can_be_configured() -> None:
    """Only the broker that was asked was listed; Kafka lists all that have the listener."""
    async with peer() as client:
        for broker_id, listener in ((2, LISTENER), (3, "OTHER")):
            endpoint = Endpoint(listener, "127.0.0.1", 9092, "PLAINTEXT")
            client.broker.image.replay(BrokerRecord(broker_id, 7, (endpoint,)))
        for kind in (BROKER, BROKER_LOGGER):
            response = await client.ask(ListConfigResourcesRequest(resource_types=[kind]))
            assert [resource.resource_name for resource in response.config_resources] == ["1", "2"]


async def test_an_unknown_kind_of_resource_is_refused() -> None:
    async with peer() as client:
        response = await client.ask(ListConfigResourcesRequest(resource_types=[TOPIC, 99]))
        assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


async def test_version_zero_knows_client_metrics_only() -> None:
    async with peer() as client:
        await client.create("t")
        response = await client.ask(ListConfigResourcesRequest(), 0)
        assert (response.error_code, response.config_resources) == (0, [])


# --- Groups


async def test_a_group_has_options_of_its_own_whether_or_not_it_exists() -> None:
    async with peer() as client:
        name = "a/group with % and ü"
        assert await value(client, GROUP, name, "consumer.heartbeat.interval.ms") == ("5000", DEFAULT_SOURCE)
        change = ("consumer.heartbeat.interval.ms", SET, "6000")
        assert await adjust(client, GROUP, name, change) == (ErrorCode.NONE, False)
        assert await value(client, GROUP, name, "consumer.heartbeat.interval.ms") == ("6000", GROUP_SOURCE)
        assert await replace(client, GROUP, name, consumer_session_timeout_ms="50000") == ErrorCode.NONE
        assert await value(client, GROUP, name, "consumer.heartbeat.interval.ms") == ("5000", DEFAULT_SOURCE)
        listed = (await client.ask(ListConfigResourcesRequest(resource_types=[GROUP]))).config_resources
        assert [(resource.resource_type, resource.resource_name) for resource in listed] == [(GROUP, name)]


async def test_a_group_option_must_lie_within_the_bounds_of_the_broker() -> None:
    async with peer() as client:
        change = ("consumer.session.timeout.ms", SET, "1000")
        assert await adjust(client, GROUP, "g", change) == (ErrorCode.INVALID_CONFIG, True)
        assert await adjust(client, GROUP, "g", ("no.such", SET, "1")) == (ErrorCode.INVALID_CONFIG, True)
        assert await adjust(client, GROUP, "", ("consumer.session.timeout.ms", SET, "50000")) == (
            ErrorCode.INVALID_REQUEST,
            True,
        )
        assert (await describe(client, GROUP, "")).error_code == ErrorCode.INVALID_REQUEST
        assert (await client.ask(ListConfigResourcesRequest(resource_types=[GROUP]))).config_resources == []


@pytest.mark.parametrize("name", ["1", ""])
async def test_configs_with_which_the_broker_could_not_start_are_not_stored(name: str) -> None:
    """The broker refused an option of a listener that it does not have, after it had stored it."""
    async with peer() as client:
        bad = AlterConfigsRequestConfig(name="listener.name.nowhere.max.connections", value="5")
        resource = AlterConfigsRequestResource(resource_type=BROKER, resource_name=name, configs=[bad])
        answer = await client.ask(AlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == ErrorCode.INVALID_CONFIG
        assert "nowhere is not one of the listeners" in answer.responses[0].error_message
        assert client.broker.image.config(ConfigKind.BROKER, name or CLUSTER_DEFAULT) == {}
