"""Produce by a mirror: the batches of another log at the offsets that they have there."""

from typing import Any, cast

import pytest
from tests.unit.sample import NOW_MS, make_batch, records_of
from tests.unit.server.handlers.peer import Peer, fetch_request, peer, produce_request
from tests.unit.server.judge import judge_here

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.produce import ProduceResponsePartition
from tailrace.protocol.messages.producer import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
)
from tailrace.records.batch import read_header, write_crc
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.gap import build_gap
from tailrace.records.record import read_batches
from tailrace.server.context import Operation, RequestContext
from tailrace.storage.mirror_append import MIRRORED_PRODUCER_BIT

CLAIM = "cluster/topic/1"
FAR = 5_000_000_000


def write(client: Peer, batch: bytes | bytearray) -> int:
    """Append to the source as its leader does, past the checks for what clients send."""
    data = bytearray(batch)
    partition = client.broker.replicas.get("source", 0)
    base_offset = partition.log.append(data, read_header(data), partition.leader_epoch)
    partition.high_watermark = partition.log.log_end_offset
    return base_offset


def marker(control_type: ControlType, producer_id: int) -> bytes:
    end = EndTransactionMarker(control_type, coordinator_epoch=3)
    return build_end_transaction_marker(end, producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW_MS)


async def read(client: Peer, topic: str, offset: int = 0, isolation_level: int = 0) -> Any:
    request = fetch_request({(topic, 0): offset})
    request.isolation_level = isolation_level
    (partition,) = (await client.ask(request, 12)).responses[0].partitions
    return partition


async def mirror(
    client: Peer, data: bytes | bytearray, from_offset: int, *, claim: str = CLAIM, acks: int = -1
) -> ProduceResponsePartition:
    request = produce_request({("copy", 0): bytearray(data)}, acks)
    request.mirror_claim = claim
    request.topic_data[0].partition_data[0].mirror_from_offset = from_offset
    response = await client.ask(request, 12)
    return cast("ProduceResponsePartition", response.responses[0].partition_responses[0])


async def create(client: Peer) -> None:
    await client.create("source")
    await client.create("copy", tailrace_mirror_claim=CLAIM)


async def test_a_copy_has_the_offsets_transactions_and_markers_of_its_source() -> None:
    async with peer() as client:
        await create(client)
        write(client, make_batch(b"plain"))
        write(client, make_batch(b"numbered", producer=(4, 1, 7)))
        write(client, make_batch(b"aborted", producer=(5, 0, 0), is_transactional=True))
        write(client, make_batch(b"committed", producer=(6, 0, 0), is_transactional=True))
        write(client, marker(ControlType.ABORT, 5))
        write(client, marker(ControlType.COMMIT, 6))
        write(client, make_batch(b"open", producer=(6, 0, 1), is_transactional=True))
        source = await read(client, "source")
        assert (await mirror(client, source.records, 0)).error_code == 0
        for isolation_level in (0, 1):
            ours, theirs = [await read(client, topic, 0, isolation_level) for topic in ("copy", "source")]
            assert records_of(ours.records) == records_of(theirs.records)
            assert (ours.high_watermark, ours.last_stable_offset) == (7, 6)
            assert (theirs.high_watermark, theirs.last_stable_offset) == (7, 6)
            aborted = [(each.producer_id, each.first_offset) for each in ours.aborted_transactions or []]
            assert aborted == ([(MIRRORED_PRODUCER_BIT | 5, 2)] if isolation_level else [])
        request = DescribeProducersRequest(topics=[DescribeProducersRequestTopic(name="copy", partition_indexes=[0])])
        producers = (await client.ask(request)).topics[0].partitions[0].active_producers
        ids = {each.producer_id: each.current_txn_start_offset for each in producers}
        assert ids == {MIRRORED_PRODUCER_BIT | 4: -1, MIRRORED_PRODUCER_BIT | 5: -1, MIRRORED_PRODUCER_BIT | 6: 6}


async def test_what_the_copy_has_already_is_passed_over() -> None:
    async with peer() as client:
        await create(client)
        for value in (b"a", b"b", b"c"):
            write(client, make_batch(value))
        data = (await read(client, "source")).records
        (_, first), *_ = read_batches(data)
        assert (await mirror(client, data[: first.size_bytes], 0)).error_code == 0
        for _ in range(2):
            reply = await mirror(client, data, 0)
            assert (reply.error_code, reply.base_offset) == (0, 0)
        assert [record.offset for record in records_of((await read(client, "copy")).records)] == [0, 1, 2]


async def test_gaps_of_the_source_are_kept_and_a_hole_is_refused() -> None:
    async with peer() as client:
        await create(client)
        for value in (b"a", b"b", b"c"):
            write(client, make_batch(value))
        data = (await read(client, "source")).records
        size_bytes = read_header(data).size_bytes
        hole = await mirror(client, data[2 * size_bytes :], 2)
        assert (hole.error_code, hole.error_message) == (
            ErrorCode.OFFSET_OUT_OF_RANGE,
            "the batches begin at 2, and copy-0 ends at 0",
        )
        compacted = bytes(data[:size_bytes]) + bytes(data[2 * size_bytes :])
        assert (await mirror(client, compacted, 0)).error_code == 0
        assert [record.offset for record in records_of((await read(client, "copy")).records)] == [0, 2]


async def test_a_copy_begins_where_its_source_begins() -> None:
    async with peer() as client:
        await create(client)
        data = bytearray(make_batch(b"far"))
        data[:8] = FAR.to_bytes(8, "big")
        refused = await mirror(client, data, 0)
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert "fill the gap first" in (refused.error_message or "")
        assert (await mirror(client, b"".join([*build_gap(0, FAR), data]), 0)).error_code == 0
        partition = client.broker.replicas.get("copy", 0)
        assert partition.delete_records(FAR) == FAR
        answer = await read(client, "copy", FAR)
        assert [(record.offset, record.value) for record in records_of(answer.records)] == [(FAR, b"far")]


async def test_a_log_with_gaps_is_the_same_after_a_restart() -> None:
    async with peer() as client:
        await create(client)
        data = bytearray(make_batch(b"far", producer=(5, 0, 0), is_transactional=True))
        data[:8] = FAR.to_bytes(8, "big")
        assert (await mirror(client, b"".join([*build_gap(0, FAR), data]), 0)).error_code == 0
        machine = client.machine
    async with peer(machine) as client:
        log = client.broker.replicas.get("copy", 0).log
        assert (log.log_end_offset, log.last_stable_offset(FAR + 1)) == (FAR + 1, FAR)
        answer = await read(client, "copy", FAR)
        assert [record.value for record in records_of(answer.records)] == [b"far"]


async def test_only_the_mirror_with_the_claim_writes_a_copy() -> None:
    async with peer() as client:
        await create(client)
        refused = await client.produce(make_batch(b"mine"), topic="copy")
        assert refused.error_code == ErrorCode.POLICY_VIOLATION
        assert "copy is a copy that a mirror writes" in (refused.error_message or "")
        fenced = await mirror(client, make_batch(b"theirs"), 0, claim="cluster/topic/0")
        assert fenced.error_code == ErrorCode.PRODUCER_FENCED
        assert (await mirror(client, make_batch(b"a"), 0, acks=1)).error_code == ErrorCode.INVALID_REQUIRED_ACKS
        await client.create("plain")
        request = produce_request({("plain", 0): make_batch(b"a")})
        request.mirror_claim = CLAIM
        response = await client.ask(request, 12)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.POLICY_VIOLATION
        assert not (await read(client, "copy")).records
        assert not (await read(client, "plain")).records


@pytest.mark.parametrize("damage", ["cut", "checksum", "order", "null", "garbage"])
async def test_batches_that_are_not_whole_and_right_are_refused(damage: str) -> None:
    async with peer() as client:
        await create(client)
        first, second = bytearray(make_batch(b"first")), bytearray(make_batch(b"second"))
        second[:8] = (1).to_bytes(8, "big")
        if damage == "cut":
            del second[-1:]
        elif damage == "checksum":
            second[-2] ^= 1
        elif damage == "order":
            second[:8] = (0).to_bytes(8, "big")
            second[23:27] = (5).to_bytes(4, "big")
            write_crc(second, 0, len(second))
        elif damage == "garbage":
            second[:] = b"x" * 70
        request = produce_request({("copy", 0): None if damage == "null" else first + second})
        request.mirror_claim = CLAIM
        request.topic_data[0].partition_data[0].mirror_from_offset = 0
        (reply,) = (await client.ask(request, 12)).responses[0].partition_responses
        assert reply.error_code == (ErrorCode.INVALID_RECORD if damage == "order" else ErrorCode.CORRUPT_MESSAGE)
        kept = records_of((await read(client, "copy")).records)
        assert [record.value for record in kept] == ([] if damage == "null" else [b"first"])


async def test_a_mirror_needs_the_right_to_alter_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    async with peer() as client:
        await create(client)
        asked = []

        def is_allowed(_: RequestContext, operation: Operation, *__: Any, **___: Any) -> bool:
            asked.append(operation)
            return operation is not Operation.ALTER

        judge_here(monkeypatch, is_allowed)
        reply = await mirror(client, make_batch(b"a"), 0)
        assert reply.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert asked == [Operation.WRITE, Operation.ALTER]
