"""Topics with schema validation: which batches they refuse, with what reason, and what a registry's faults cost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.runtime.schema.registry_stub import RegistryStub, registry_stub
from tests.unit.sample import make_batch, records_of
from tests.unit.server.handlers.peer import Peer, fetch_request, peer, produce_request
from tests.unit.server.transactor import PeerTransactor

from tailrace.base.limits import (
    CHECK_IN_LOOP_BYTES_MAX,
    RECORD_ERRORS_PER_BATCH_MAX,
    SCHEMA_IDS_PER_BATCH_MAX,
    SCHEMA_LOOKUPS_TOGETHER_MAX,
    SCHEMA_REGISTRY_REST_MS,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.config import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tailrace.protocol.messages.topic import CreateTopicsRequest, CreateTopicsRequestConfig, CreateTopicsRequestTopic
from tailrace.records.compression import Compression
from tailrace.server.connection import ConnectionClosed
from tailrace.server.produce import schema

VALUE = "confluent.value.schema.validation"
KEY = "confluent.key.schema.validation"
STRATEGIES = "io.confluent.kafka.serializers.subject"


def framed(schema_id: int, payload: bytes = b"payload") -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


@asynccontextmanager
async def validating(**configs: str) -> AsyncIterator[tuple[Peer, RegistryStub]]:
    """A broker with a registry, and a topic `t` that validates its values or what `configs` say."""
    async with (
        registry_stub() as stub,
        peer(confluent_schema_registry_url=stub.url, transaction_state_log_num_partitions="1") as client,
    ):
        stub.subjects = {7: ["t-value"], 8: ["t-value", "t-key"], 9: ["u-value"]}
        await client.create("t", 1, **(configs or {"confluent_value_schema_validation": "true"}))
        yield client, stub


async def stored(client: Peer, topic: str = "t") -> list[bytes | None]:
    response = await client.ask(fetch_request({(topic, 0): 0}), 12)
    return [record.value for record in records_of(response.responses[0].partitions[0].records)]


async def outcome(client: Peer, *values: bytes | None, key: bytes | None = b"key") -> int:
    return (await client.produce(make_batch(*values, key=key))).error_code


# --- what is refused


async def test_values_with_an_id_of_the_subject_are_stored() -> None:
    async with validating() as (client, stub):
        values = [framed(7), None, framed(8, b""), framed(7)]
        assert [await outcome(client, *values) for _ in range(3)] == [0, 0, 0]
        assert await stored(client) == values * 3
        assert stub.asked == ["/schemas/ids/7/subjects", "/schemas/ids/8/subjects"], "each id is asked for once"


@pytest.mark.parametrize("size", [1, CHECK_IN_LOOP_BYTES_MAX + 1])
@pytest.mark.parametrize("codec", list(Compression))
async def test_batches_of_every_codec_are_judged(codec: Compression, size: int) -> None:
    """Those of the larger size are opened in a thread, unless they compress well; and both ways judge alike."""
    noise = bytes(number * 7919 % 251 for number in range(size))
    async with validating() as (client, _):
        assert (await client.produce(make_batch(framed(7, noise), None, compression=codec))).error_code == 0
        reply = await client.produce(make_batch(framed(7, noise), framed(9, noise), compression=codec))
        assert reply.error_code == ErrorCode.INVALID_RECORD
        assert await stored(client) == [framed(7, noise), None]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "the value is too short for a schema id, which must be registered under the subject t-value"),
        (
            b"\x01\x00\x00\x00\x07payload",
            "the value does not begin with byte 0 and a schema id, which must be registered under the subject t-value",
        ),
        (framed(4), "the schema id 4 of the value is not registered under the subject t-value"),
        (framed(9), "the schema id 9 of the value is not registered under the subject t-value"),
        (framed(2**32 - 1), "the schema id 4294967295 of the value is not registered under the subject t-value"),
    ],
    ids=["short", "magic", "unknown", "other subject", "negative"],
)
async def test_one_bad_record_refuses_the_batch(value: bytes, reason: str) -> None:
    async with validating() as (client, _):
        for _ in range(2):  # the second time from memory
            reply = await client.produce(make_batch(framed(7), value, None, value))
            assert (reply.error_code, reply.base_offset) == (ErrorCode.INVALID_RECORD, -1)
            assert reply.error_message == f"t-0: record 1: {reason}"
            faults = [(fault.batch_index, fault.batch_index_error_message) for fault in reply.record_errors]
            assert faults == [(1, reason), (3, reason)]
        assert await stored(client) == []


async def test_keys_are_validated_apart_from_values() -> None:
    async with validating(confluent_key_schema_validation="true") as (client, _):
        assert await outcome(client, b"any value", key=framed(8)) == 0
        assert await outcome(client, b"any value", key=None) == 0, "as in Confluent Server, a null key passes"
        reply = await client.produce(make_batch(framed(7), key=framed(7)))
        assert (
            reply.error_message == "t-0: record 0: the schema id 7 of the key is not registered under the subject t-key"
        )
    both = {"confluent_key_schema_validation": "true", "confluent_value_schema_validation": "true"}
    async with validating(**both) as (client, _):
        assert await outcome(client, framed(7), key=framed(8)) == 0
        reply = await client.produce(make_batch(framed(9), b"x", key=framed(7)))
        assert [fault.batch_index for fault in reply.record_errors] == [1], "what needs no registry is found first"


@pytest.mark.parametrize("strategy", ["RecordNameStrategy", "TopicRecordNameStrategy"])
async def test_other_strategies_accept_an_id_of_any_subject(strategy: str) -> None:
    names = {"confluent_value_subject_name_strategy": f"{STRATEGIES}.{strategy}"}
    async with validating(confluent_value_schema_validation="true", **names) as (client, _):
        assert await outcome(client, framed(9), framed(7)) == 0
        reply = await client.produce(make_batch(framed(4)))
        assert reply.error_message == "t-0: record 0: the schema id 4 of the value is not registered under any subject"


async def test_a_new_schema_works_at_once() -> None:
    async with validating() as (client, stub):
        stub.subjects[10] = ["t-value"]
        assert await outcome(client, framed(10)) == 0


async def test_the_records_that_are_named_are_bounded() -> None:
    async with validating() as (client, _):
        reply = await client.produce(make_batch(*[b"x"] * 100, *[b"no schema id"] * 100))
        assert [fault.batch_index for fault in reply.record_errors] == list(range(RECORD_ERRORS_PER_BATCH_MAX))


async def test_random_ids_cost_the_registry_little() -> None:
    async with validating() as (client, stub):
        values = [framed(1000 + number) for number in range(SCHEMA_IDS_PER_BATCH_MAX - 1)]
        assert await outcome(client, *values) == ErrorCode.INVALID_RECORD
        assert len(stub.asked) == SCHEMA_LOOKUPS_TOGETHER_MAX
        reply = await client.produce(make_batch(*values, framed(1)))
        assert (reply.error_code, reply.error_message) == (
            ErrorCode.INVALID_RECORD,
            f"t-0: the values of the batch have more than {SCHEMA_IDS_PER_BATCH_MAX - 1} different schema ids",
        )
        assert len(stub.asked) == SCHEMA_LOOKUPS_TOGETHER_MAX


async def test_more_ids_than_are_asked_for_together_may_be_right() -> None:
    async with validating() as (client, stub):
        stub.subjects = {number: ["t-value"] for number in range(3 * SCHEMA_LOOKUPS_TOGETHER_MAX)}
        assert await outcome(client, *(framed(number) for number in stub.subjects)) == 0


async def test_without_acks_a_bad_record_closes_the_connection() -> None:
    async with validating() as (client, _):
        with pytest.raises(ConnectionClosed, match="INVALID_RECORD"):
            await client.ask(produce_request({("t", 0): make_batch(b"x")}, acks=0), 12)


async def test_refused_records_are_counted_by_topic() -> None:
    async with validating() as (client, _):
        await outcome(client, framed(7), b"x", framed(7))
        await outcome(client, framed(7))
        await outcome(client, b"x")
        (metric,) = [
            metric
            for metric in client.broker.metrics.metrics()
            if metric.name == "tailrace_schema_validation_refused_record_count"
        ]
        assert [(sample.labels, sample.value) for sample in metric.samples()] == [((("topic", "t"),), 4)]


# --- producers with an identity


async def test_a_refused_batch_takes_no_sequence_number() -> None:
    async with validating() as (client, _):
        for value, code in ((framed(7), 0), (b"x", ErrorCode.INVALID_RECORD), (framed(8), 0)):
            sequence = 0 if value == framed(7) else 1
            reply = await client.produce(make_batch(value, producer=(5, 0, sequence)))
            assert reply.error_code == code
        assert await stored(client) == [framed(7), framed(8)]


async def test_a_refused_batch_of_a_transaction_leaves_it_open() -> None:
    async with validating() as (client, _):
        await client.broker.transactions.make_topic()
        await client.broker.transactions.loaded()
        producer = PeerTransactor(client)
        assert await producer.init() is ErrorCode.NONE
        assert await producer.add(0) == {ErrorCode.NONE}
        assert await producer.write(0, b"x") is ErrorCode.INVALID_RECORD
        assert await producer.end(is_commit=False) is ErrorCode.NONE
        assert await producer.add(0) == {ErrorCode.NONE}
        assert await producer.write(0, framed(7)) is ErrorCode.NONE
        assert await producer.end() is ErrorCode.NONE
        assert framed(7) in await stored(client), "and control records of the broker itself need no schema"


# --- registries that fail


async def test_a_registry_that_is_down_makes_the_producer_retry() -> None:
    async with validating() as (client, stub):
        assert await outcome(client, framed(7)) == 0
        stub.fault = (500, b"")
        reply = await client.produce(make_batch(framed(8)))
        assert reply.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert ErrorCode(reply.error_code).retriable
        assert reply.error_message == (
            f"t-0: the schema ids of the batch cannot be looked up: {stub.url}: the registry answered with status 500"
        )
        assert await outcome(client, framed(7)) == 0, "the ids that are known still work"
        assert await outcome(client, b"x") == ErrorCode.INVALID_RECORD, "and this needs no registry"
        stub.fault = None
        client.machine.clock.time_ms += SCHEMA_REGISTRY_REST_MS
        async with asyncio.timeout(60):
            while (code := await outcome(client, framed(8))) == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                await asyncio.sleep(0)
        assert code == 0


async def test_a_slow_registry_holds_up_no_other_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch of another topic in the same request is stored, and the connection is soon free again."""
    monkeypatch.setattr(schema, "SCHEMA_PRODUCE_WAIT_S", 0.05)
    async with validating() as (client, stub):
        await client.create("other")
        stub.may_answer.clear()
        batches = {("t", 0): make_batch(framed(7)), ("other", 0): make_batch(b"anything")}
        response = await client.ask(produce_request(batches), 12)
        refused, accepted = (topic.partition_responses[0] for topic in response.responses)
        assert (refused.error_code, accepted.error_code) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
        assert "did not answer within 0.05 s" in refused.error_message
        assert await stored(client, "other") == [b"anything"]
        stub.may_answer.set()
        assert await outcome(client, framed(7)) == 0


async def test_topics_without_validation_ask_nothing() -> None:
    async with validating() as (client, stub):
        await client.create("other")
        assert (await client.produce(make_batch(framed(4), b"x"), topic="other")).error_code == 0
        assert stub.asked == []


# --- configs


async def alter(client: Peer, name: str, value: str) -> tuple[int, str | None]:
    config = IncrementalAlterConfigsRequestConfig(name=name, config_operation=0, value=value)
    resource = IncrementalAlterConfigsRequestResource(resource_type=2, resource_name="t", configs=[config])
    (result,) = (await client.ask(IncrementalAlterConfigsRequest(resources=[resource]))).responses
    return result.error_code, result.error_message


async def create(client: Peer, name: str, **configs: str) -> tuple[int, str | None]:
    given = [CreateTopicsRequestConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1, configs=given)
    (result,) = (await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000))).topics
    return result.error_code, result.error_message


async def test_validation_is_switched_on_and_off_at_run_time() -> None:
    async with validating(confluent_value_schema_validation="false") as (client, _):
        assert await outcome(client, b"x") == 0
        assert await alter(client, VALUE, "true") == (0, None)
        assert await outcome(client, b"x") == ErrorCode.INVALID_RECORD
        assert await alter(client, VALUE, "false") == (0, None)
        assert await outcome(client, b"x") == 0


@pytest.mark.parametrize("name", [KEY, VALUE])
async def test_validation_needs_a_registry(name: str) -> None:
    reason = f"{name} needs a schema registry: set confluent.schema.registry.url on every broker and restart it"
    async with peer() as client:
        assert await create(client, "t", **{name: "true"}) == (ErrorCode.INVALID_CONFIG, reason)
        assert await create(client, "t", **{name: "false"}) == (0, None)
        assert await alter(client, name, "true") == (ErrorCode.INVALID_CONFIG, reason)
        assert await outcome(client, b"x") == 0


async def test_a_broker_that_lost_its_registry_stores_nothing_unchecked() -> None:
    """The topic was made while the broker had a registry; its producers wait until it has one again."""
    async with registry_stub() as stub:
        async with peer(confluent_schema_registry_url=stub.url) as client:
            await client.create(confluent_value_schema_validation="true")
            machine = client.machine
        async with peer(machine) as client:
            reply = await client.produce(make_batch(framed(7)))
            assert reply.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert "confluent.schema.registry.url is not set on this broker" in (reply.error_message or "")
            assert await alter(client, VALUE, "false") == (0, None)
            assert await outcome(client, b"x") == 0


async def test_an_unknown_strategy_is_refused() -> None:
    async with validating() as (client, _):
        code, message = await create(client, "u", confluent_key_subject_name_strategy="TopicNameStrategy")
        assert code == ErrorCode.INVALID_CONFIG
        assert f"must be one of {STRATEGIES}.TopicNameStrategy, " in (message or "")
