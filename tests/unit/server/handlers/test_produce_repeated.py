"""Produce: a batch that the log has already, whose repetition the topic would no longer accept.

The broker validated such a batch before it looked for a duplicate, as Kafka does. The producer learned that the batch
was rejected, although it was written.
"""

import pytest
from tests.unit.sample import NOW_MS, make_batch
from tests.unit.server.handlers.peer import Peer, peer, produce_request
from tests.unit.server.handlers.test_produce_handler import HOUR_MS, forged, stored

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.config import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tailrace.records.compression import Compression

TOPIC = 2
LIMITS = {
    ErrorCode.MESSAGE_TOO_LARGE: {"max.message.bytes": "75"},
    ErrorCode.INVALID_TIMESTAMP: {"message.timestamp.before.max.ms": str(HOUR_MS)},
    ErrorCode.INVALID_RECORD: {"cleanup.policy": "compact"},
}


def batch(*values: bytes, sequence: int = 0, compression: Compression = Compression.NONE) -> bytearray:
    """A batch that none of the limits allows."""
    return make_batch(
        *values,
        timestamp=NOW_MS - 2 * HOUR_MS,
        key=None,
        producer=(5, 0, sequence),
        compression=compression,
    )


async def alter(client: Peer, configs: dict[str, str]) -> None:
    changes = [
        IncrementalAlterConfigsRequestConfig(name=name, config_operation=0, value=value)
        for name, value in configs.items()
    ]
    resource = IncrementalAlterConfigsRequestResource(resource_type=TOPIC, resource_name="t", configs=changes)
    response = await client.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    assert [answer.error_code for answer in response.responses] == [0]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("code", LIMITS, ids=lambda code: code.name)
async def test_what_the_log_has_is_not_validated_again(code: ErrorCode, acks: int, compression: Compression) -> None:
    async with peer() as client:
        await client.create()
        written = batch(b"a", b"b", compression=compression)
        assert (await client.produce(written, acks=acks)).base_offset == 0
        await alter(client, LIMITS[code])
        again = await client.produce(written, acks=acks)
        assert (again.error_code, again.base_offset) == (0, 0)
        new = batch(b"c", b"d", sequence=2, compression=compression)
        assert (await client.produce(new, acks=acks)).error_code == code
        assert await stored(client) == [b"a", b"b"]


async def test_others_may_write_in_between() -> None:
    async with peer() as client:
        await client.create()
        await client.produce(batch(b"a", b"b"))
        await alter(client, LIMITS[ErrorCode.MESSAGE_TOO_LARGE])
        assert (await client.produce(make_batch(b"c", producer=(6, 0, 0)))).base_offset == 2
        assert (await client.produce(batch(b"a", b"b"))).base_offset == 0
        assert await stored(client) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("limits", [{}, LIMITS[ErrorCode.MESSAGE_TOO_LARGE]], ids=["any size", "too large"])
async def test_a_malformed_batch_is_rejected_though_its_numbers_are_known(limits: dict[str, str]) -> None:
    async with peer() as client:
        await client.create()
        await client.produce(batch(b"a", b"b"))
        await alter(client, limits)
        damaged = batch(b"a", b"b")
        damaged[-1] ^= 1
        assert (await client.produce(damaged)).error_code == ErrorCode.CORRUPT_MESSAGE
        miscounted = forged(batch(b"a", b"b"), record_count=3)
        assert (await client.produce(miscounted)).error_code == ErrorCode.INVALID_RECORD
        assert (await client.produce(batch(b"a", b"b") + b"more")).error_code == ErrorCode.INVALID_RECORD
        assert await stored(client) == [b"a", b"b"]


async def test_a_repeated_batch_has_the_time_of_its_append() -> None:
    async with peer() as client:
        await client.create(message_timestamp_type="LogAppendTime")
        first = await client.produce(batch(b"a", b"b"))
        await alter(client, LIMITS[ErrorCode.MESSAGE_TOO_LARGE])
        again = await client.produce(batch(b"a", b"b"))
        assert (again.error_code, again.base_offset) == (0, 0)
        assert again.log_append_time_ms == first.log_append_time_ms == NOW_MS


async def test_repeated_and_new_batches_may_share_a_request() -> None:
    async with peer() as client:
        await client.create(partition_count=2)
        await client.produce(batch(b"a", b"b"), index=1)
        both = {("t", 0): batch(b"c"), ("t", 1): batch(b"a", b"b")}
        response = await client.ask(produce_request(both), 12)
        replies = response.responses[0].partition_responses
        assert [(reply.index, reply.error_code, reply.base_offset) for reply in replies] == [(0, 0, 0), (1, 0, 0)]
        assert await stored(client, index=0) == [b"c"]
        assert await stored(client, index=1) == [b"a", b"b"]
