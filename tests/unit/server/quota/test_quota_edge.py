"""Requests of clients with quotas, on a clock that stands still: what is counted, and how long a client pauses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.sample import make_batch
from tests.unit.server.handlers.peer import Peer, fetch_request, peer, produce_request
from tests.unit.server.judge import deny_here

from tailrace.machines.quota.entity import DEFAULT, QuotaEntity
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.envelope import EnvelopeRequest
from tailrace.protocol.messages.fetch import FetchRequestReplicaState
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.offset import OffsetForLeaderEpochRequest
from tailrace.protocol.messages.topic import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
)
from tailrace.protocol.messages.transaction_marker import WriteTxnMarkersRequest
from tailrace.protocol.principal import encode_principal
from tailrace.server.quota.edge import QuotaEdge

EVERY_CLIENT = QuotaEntity(client_id=DEFAULT)


async def set_quota(client: Peer, entity: QuotaEntity = EVERY_CLIENT, **quotas: float | None) -> None:
    """Set quotas by their names, and remove those that are None."""
    kind, name = entity.place
    texts = {key: str(value) for key, value in quotas.items() if value is not None}
    await client.broker.controller.write_config(
        kind,
        name,
        lambda current: {**{key: text for key, text in current.items() if key not in quotas}, **texts},
        validate_only=False,
    )


def edge(client: Peer) -> QuotaEdge:
    return client._dispatcher.quotas


@asynccontextmanager
async def limited(entity: QuotaEntity = EVERY_CLIENT, **quotas: float) -> AsyncIterator[Peer]:
    """A client with a topic and with quotas."""
    async with peer() as client:
        await client.create()
        await set_quota(client, entity, **quotas)
        yield client


def produced(size_bytes: int) -> tuple[object, int]:
    """A produce request, and the size of its frame."""
    request = produce_request({("t", 0): make_batch(b"x" * size_bytes)})
    return request, len(b"".join(encode_request(1, "peer", request, 12))) - 4


async def produce(client: Peer, size_bytes: int) -> int:
    """Produce a record and return the throttle time."""
    request, _ = produced(size_bytes)
    response = await client.ask(request, 12)  # type: ignore[arg-type]
    assert response.responses[0].partition_responses[0].error_code == 0
    return int(response.throttle_time_ms)


# --- bytes


async def test_nothing_is_counted_without_a_quota() -> None:
    async with peer() as client:
        await client.create()
        assert not edge(client).is_active
        assert await produce(client, 10_000_000 // 20) == 0
        await set_quota(client, QuotaEntity(ip=DEFAULT), connection_creation_rate=1.0)
        assert not edge(client).is_active
        assert client.line.pauses == []


async def test_a_producer_pauses_until_its_bytes_are_paid() -> None:
    """The first second is free; from then on each byte costs its share of a second, by the size of the whole frame."""
    async with limited(producer_byte_rate=10_000) as client:
        _, frame_bytes = produced(25_000)
        throttle_ms = await produce(client, 25_000)
        assert throttle_ms == -(-(frame_bytes - 10_000) * 1000 // 10_000)
        assert len(client.line.pauses) == 1
        client.machine.clock.time_ms += throttle_ms
        assert await produce(client, 10) > 0
        client.machine.clock.time_ms += 2_000
        assert await produce(client, 5_000) == 0
        assert len(client.line.pauses) == 2


async def test_a_producer_without_acks_pauses_too() -> None:
    async with limited(producer_byte_rate=100) as client:
        batch = make_batch(b"x" * 1000)
        assert await client.ask(produce_request({("t", 0): batch}, acks=0), 12) is None
        assert len(client.line.pauses) == 1


async def test_other_requests_than_produce_do_not_count_as_produced() -> None:
    async with limited(producer_byte_rate=100) as client:
        await produce(client, 1000)
        response = await client.ask(MetadataRequest(topics=None))
        assert response.throttle_time_ms == 0


async def test_clients_with_other_ids_do_not_share() -> None:
    async with limited(producer_byte_rate=100) as client:
        assert await produce(client, 1000) > 0
        frame = b"".join(encode_request(1, "other", MetadataRequest(topics=None), 9))[4:]
        await client.serve(frame)
        await set_quota(client, EVERY_CLIENT, producer_byte_rate=None)
        await set_quota(client, QuotaEntity(client_id="other"), producer_byte_rate=100)
        assert await produce(client, 1000) == 0


async def test_a_user_is_the_name_of_the_principal() -> None:
    async with limited(QuotaEntity("ANONYMOUS"), producer_byte_rate=100) as client:
        assert await produce(client, 1000) > 0
        client.line.principal = "User:alice"
        assert await produce(client, 1000) == 0


async def test_a_changed_rate_counts_at_once() -> None:
    async with limited(producer_byte_rate=1) as client:
        assert await produce(client, 1000) > 900_000
        pause = asyncio.create_task(client.line.pauses[0].wait())
        await asyncio.sleep(0)
        await set_quota(client, producer_byte_rate=1_000_000)
        await pause
        client.machine.clock.time_ms += 100
        assert await produce(client, 1000) == 0


async def test_a_removed_quota_ends_the_pause() -> None:
    async with limited(producer_byte_rate=1) as client:
        assert await produce(client, 1000) > 900_000
        pause = asyncio.create_task(client.line.pauses[0].wait())
        await asyncio.sleep(0)
        await set_quota(client, producer_byte_rate=None)
        await pause
        assert not edge(client).is_active


async def test_the_longest_window_is_an_option() -> None:
    async with peer(quota_window_size_seconds="10") as client:
        await client.create()
        await set_quota(client, producer_byte_rate=1000)
        assert await produce(client, 5_000) == 0
        assert await produce(client, 9_000) > 0


# --- fetch


async def fill(client: Peer, count: int, size_bytes: int) -> None:
    for _ in range(count):
        await client.produce(make_batch(b"x" * size_bytes))


async def test_a_consumer_gets_what_is_left_of_its_quota_and_then_nothing() -> None:
    async with limited(consumer_byte_rate=10_000) as client:
        await fill(client, 10, 4_000)
        first = await client.ask(fetch_request({("t", 0): 0}), 12)
        got_bytes = len(first.responses[0].partitions[0].records)
        assert 8_000 < got_bytes <= 10_000
        assert 0 < first.throttle_time_ms < 50  # for the rest of the reply
        second = await client.ask(fetch_request({("t", 0): 2}), 12)
        assert (second.error_code, second.responses, second.session_id) == (0, [], 0)
        assert second.throttle_time_ms >= first.throttle_time_ms
        assert len(client.line.pauses) == 2
        client.machine.clock.time_ms += second.throttle_time_ms
        third = await client.ask(fetch_request({("t", 0): 2}), 12)
        assert 4_000 < len(third.responses[0].partitions[0].records) < 5_000  # one batch, however little is left
        assert 400 < third.throttle_time_ms < 500


async def test_a_session_goes_on_after_an_empty_reply() -> None:
    """The client raises the epoch of its session after each reply, so the broker has to count an empty one too."""
    async with limited(consumer_byte_rate=3_000) as client:
        await fill(client, 4, 4_000)
        opened = await client.ask(fetch_request({("t", 0): 0}, session_epoch=0), 12)
        assert opened.session_id > 0
        empty = await client.ask(fetch_request({}, session_id=opened.session_id, session_epoch=1), 12)
        assert (empty.error_code, empty.session_id, empty.responses) == (0, opened.session_id, [])
        assert empty.throttle_time_ms > 0
        client.machine.clock.time_ms += empty.throttle_time_ms
        more = await client.ask(fetch_request({}, session_id=opened.session_id, session_epoch=2), 12)
        assert (more.error_code, len(more.responses)) == (0, 1)


async def test_a_client_over_its_quota_gets_no_session() -> None:
    """A client takes an empty reply to a full request for a throttled one, and opens its session again."""
    async with limited(consumer_byte_rate=1) as client:
        await fill(client, 1, 4_000)
        await client.ask(fetch_request({("t", 0): 0}), 12)
        reply = await client.ask(fetch_request({("t", 0): 0}, session_epoch=0), 12)
        assert (reply.session_id, reply.responses) == (0, [])
        assert reply.throttle_time_ms > 0


async def test_followers_are_exempt() -> None:
    async with limited(consumer_byte_rate=1) as client:
        await fill(client, 1, 4_000)
        await client.ask(fetch_request({("t", 0): 0}), 12)
        request = fetch_request({("t", 0): 0})
        request.replica_id = 2
        old = await client.ask(request, 12)
        request = fetch_request({("t", 0): 0})
        request.replica_state = FetchRequestReplicaState(replica_id=2, replica_epoch=-1)
        request.topics[0].topic_id = client.broker.image.topics["t"].topic_id
        new = await client.ask(request, 16)
        assert (old.throttle_time_ms, new.throttle_time_ms) == (0, 0)


async def test_a_client_that_claims_to_be_a_broker_is_not_exempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a principal with CLUSTER_ACTION is believed."""
    async with limited(request_percentage=0.001) as client:
        request = OffsetForLeaderEpochRequest(replica_id=2, topics=[])
        assert [(await client.ask(request)).throttle_time_ms for _ in range(2)] == [0, 0]
        deny_here(monkeypatch)
        assert [(await client.ask(request)).throttle_time_ms > 0 for _ in range(2)] == [True, True]


@pytest.mark.parametrize(
    "request_", [WriteTxnMarkersRequest(markers=[]), EnvelopeRequest()], ids=["markers", "envelope"]
)
async def test_an_api_of_brokers_is_not_exempt_for_other_clients(
    request_: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client without any right sent such requests as fast and as large as it liked, whatever its quota."""
    async with limited(request_percentage=0.001) as client:
        for _ in range(2):
            await client.ask(request_)
        assert client.line.pauses == []
        deny_here(monkeypatch)
        for _ in range(2):
            await client.ask(request_)
        assert len(client.line.pauses) == 2


# --- request time


async def test_time_on_the_event_loop_is_bounded_by_one_window() -> None:
    async with limited(request_percentage=0.001) as client:
        response = await client.ask(MetadataRequest(topics=None))
        client.machine.clock.time_ms += 1
        response = await client.ask(MetadataRequest(topics=None))
        assert 0 < response.throttle_time_ms <= 1000


async def test_time_is_measured_by_the_clock_of_the_loop() -> None:
    async with limited(request_percentage=50.0) as client:
        ticks = iter(range(10**8, 10**15, 10**8))  # each look at the clock takes a tenth of a second
        edge(client).clock_ns = lambda: next(ticks)
        # Two tenths of a second, 20 percent seconds, of the 50 that were saved up; and as much for the reply.
        first = await client.ask(MetadataRequest(topics=None))
        assert first.throttle_time_ms == 0
        second = await client.ask(MetadataRequest(topics=None))
        assert second.throttle_time_ms == 0
        third = await client.ask(MetadataRequest(topics=None))
        assert third.throttle_time_ms == pytest.approx((3 * 20 + 2 * 10 - 50) / 50 * 1000)


# --- controller mutations


async def create(client: Peer, name: str, count: int, version: int = 7) -> tuple[int, int]:
    topic = CreateTopicsRequestTopic(name=name, num_partitions=count, replication_factor=1)
    response = await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), version)
    return response.topics[0].error_code, response.throttle_time_ms


async def test_mutations_are_refused_once_the_quota_is_used_up() -> None:
    async with limited(controller_mutation_rate=1.0) as client:  # eleven are saved up
        assert await create(client, "a", 13) == (0, 0)
        code, throttle_ms = await create(client, "b", 1)
        assert (code, throttle_ms) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 2000)
        assert len(client.line.pauses) == 1
        grown = await client.ask(
            CreatePartitionsRequest(topics=[CreatePartitionsRequestTopic(name="a", count=14)], timeout_ms=1000)
        )
        assert grown.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        deleted = await client.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="a")], timeout_ms=1000), 6)
        assert deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        client.machine.clock.time_ms += 2000
        assert await create(client, "b", 1) == (0, 0)


async def test_mutations_count_for_the_client_whose_request_is_forwarded() -> None:
    """The client's own broker pauses it. The connection between the brokers is not paused, for others use it too."""
    async with limited(controller_mutation_rate=1.0) as client:
        replies = []
        for name in ("a", "b"):
            topic = CreateTopicsRequestTopic(name=name, num_partitions=13, replication_factor=1)
            frame = b"".join(encode_request(1, "app", CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7))
            envelope = EnvelopeRequest(
                request_data=frame[4:],
                request_principal=encode_principal("User:alice", is_token_authenticated=False),
                client_host_address=bytes(4),
            )
            reply = await client.ask(envelope)
            _, response = decode_response(CreateTopicsResponse, reply.response_data, 7)
            replies.append((response.topics[0].error_code, response.throttle_time_ms))
        assert replies == [(0, 0), (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 2000)]
        assert client.line.pauses == []
        assert await create(client, "c", 1) == (0, 0)  # another client id


async def test_old_clients_pause_instead() -> None:
    async with limited(controller_mutation_rate=1.0) as client:
        assert await create(client, "a", 13, version=5) == (0, 2000)
        assert await create(client, "b", 1, version=5) == (0, 3000)


async def test_a_change_that_is_only_checked_is_no_mutation() -> None:
    async with limited(controller_mutation_rate=1.0) as client:
        topic = CreateTopicsRequestTopic(name="a", num_partitions=100, replication_factor=1)
        await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=True))
        assert await create(client, "a", 11) == (0, 0)


# --- metrics


async def test_the_pauses_are_counted_by_user_and_client_id() -> None:
    async with limited(producer_byte_rate=100) as client:
        throttle_ms = await produce(client, 1000)
        assert list(edge(client).times.read()) == [(("produce", "", "peer"), throttle_ms)]
