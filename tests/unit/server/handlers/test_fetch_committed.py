"""Fetch for readers of committed records: how far they may go, and what they have to leave out."""

from typing import Any

from tests.unit.sample import NOW_MS, make_batch, records_of
from tests.unit.server.handlers.peer import Peer, fetch_request, peer

from tailrace.protocol.messages.offset import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from tailrace.records.batch import read_header
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker

LATEST = -1


def write(client: Peer, batch: bytes | bytearray) -> int:
    """Append as a transaction coordinator does, past the checks for what clients send."""
    data = bytearray(batch)
    partition = client.broker.replicas.get("t", 0)
    base_offset = partition.log.append(data, read_header(data), partition.leader_epoch)
    partition.high_watermark = partition.log.log_end_offset
    return base_offset


def marker(control_type: ControlType, producer_id: int) -> bytes:
    end = EndTransactionMarker(control_type, coordinator_epoch=0)
    return build_end_transaction_marker(end, producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW_MS)


async def fetch(client: Peer, offset: int, isolation_level: int) -> Any:
    request = fetch_request({("t", 0): offset})
    request.isolation_level = isolation_level
    (partition,) = (await client.ask(request, 12)).responses[0].partitions
    return partition


async def latest(client: Peer, isolation_level: int) -> int:
    asked = ListOffsetsRequestPartition(partition_index=0, timestamp=LATEST)
    topic = ListOffsetsRequestTopic(name="t", partitions=[asked])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[topic])
    response = await client.ask(request)
    offset: int = response.topics[0].partitions[0].offset
    return offset


async def test_an_open_transaction_ends_what_they_may_read() -> None:
    async with peer() as client:
        await client.create()
        write(client, make_batch(b"plain"))
        write(client, make_batch(b"open", producer=(5, 0, 0), is_transactional=True))
        write(client, make_batch(b"behind"))
        committed, uncommitted = await fetch(client, 0, 1), await fetch(client, 0, 0)
        assert [record.value for record in records_of(committed.records)] == [b"plain"]
        assert len(records_of(uncommitted.records)) == 3
        assert (committed.high_watermark, committed.last_stable_offset) == (3, 1)
        assert uncommitted.last_stable_offset == 1
        assert (await latest(client, 1), await latest(client, 0)) == (1, 3)
        beyond = await fetch(client, 2, 1)
        assert (beyond.error_code, bytes(beyond.records)) == (0, b"")


async def test_aborted_transactions_are_named_and_committed_ones_are_not() -> None:
    async with peer() as client:
        await client.create()
        write(client, make_batch(b"aborted", producer=(5, 0, 0), is_transactional=True))
        write(client, make_batch(b"committed", producer=(6, 0, 0), is_transactional=True))
        write(client, marker(ControlType.ABORT, 5))
        write(client, marker(ControlType.COMMIT, 6))
        found = await fetch(client, 0, 1)
        assert (found.last_stable_offset, len(records_of(found.records))) == (4, 4)
        assert [(aborted.producer_id, aborted.first_offset) for aborted in found.aborted_transactions] == [(5, 0)]
        assert (await fetch(client, 3, 1)).aborted_transactions == []
        assert (await fetch(client, 0, 0)).aborted_transactions is None
