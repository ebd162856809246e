"""Members that are thrown out, fenced or interrupted, and subscriptions that brokers do not understand."""

import asyncio
import os
import re
import uuid
from collections.abc import Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

import pytest
from tests.unit.client.conftest import PATIENT_GROUPS, find_membership

import tailrace
from tailrace.client.backoff import Deadline
from tailrace.client.cluster import Cluster
from tailrace.client.group.coordinator import Coordinator
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.message import Message
from tailrace.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tailrace.protocol.messages.group import LeaveGroupRequest, LeaveGroupRequestMember, LeaveGroupResponse
from tailrace.testing import Broker

Shared = Callable[..., str]
Settings = dict[str, Any]
PATIENCE_MS = 60_000


@pytest.fixture
def group_id() -> str:
    return f"fault-{uuid.uuid4().hex[:12]}"


def consumer_of(address: str, group_id: str, membership: Settings, **settings: Any) -> tailrace.Consumer:
    return tailrace.Consumer(address, group_id=group_id, auto_offset_reset="earliest", **membership, **settings)


def read(consumer: tailrace.Consumer, count: int) -> list[int]:
    found: list[int] = []
    deadline = Deadline(PATIENCE_MS)
    while len(found) < count:
        assert not deadline.is_over, f"only {found}"
        found += [int(record.value or b"") for record in consumer.poll(0.05)]
    return sorted(found)


def send(address: str, topic: str, *numbers: int) -> None:
    with tailrace.Producer(address) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, partition=0).result(60)


def throw_out(address: str, group_id: str, member_id: str, *, is_consumer: bool) -> None:
    """Have a member leave without its knowledge."""
    request: Message = LeaveGroupRequest(group_id=group_id, members=[LeaveGroupRequestMember(member_id=member_id)])
    if is_consumer:
        request = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=-1)

    async def ask() -> None:
        async with Cluster(address) as cluster:
            reply_type: Any = ConsumerGroupHeartbeatResponse if is_consumer else LeaveGroupResponse
            reply = await Coordinator(cluster, group_id).request(request, reply_type)
            assert reply.error_code == 0

    asyncio.run(ask())


def test_a_member_that_is_thrown_out_joins_again(
    group_broker: str, shared: Shared, group_id: str, membership: Settings
) -> None:
    topic = shared(1, 3)
    events: list[str] = []
    with consumer_of(group_broker, group_id, membership) as consumer, tailrace.Admin(group_broker) as admin:
        consumer.subscribe(
            topic,
            on_assigned=lambda _: events.append("assigned"),
            on_revoked=lambda _: events.append("revoked"),
            on_lost=lambda _: events.append("lost"),
        )
        assert read(consumer, 3) == [0, 1, 2]
        consumer.commit()
        described = admin.describe_groups([group_id])[group_id]
        assert not isinstance(described, tailrace.ApiError)
        is_consumer = membership.get("group_protocol") == "consumer"
        throw_out(group_broker, group_id, described.members[0].member_id, is_consumer=is_consumer)
        deadline = Deadline(PATIENCE_MS)
        while events != ["assigned", "lost", "assigned"]:
            assert not deadline.is_over, events
            assert consumer.poll(0.05) == []
        send(group_broker, topic, 3)
        assert read(consumer, 1) == [3]


def test_of_two_with_one_name_only_one_reads(
    group_broker: str, shared: Shared, group_id: str, membership: Settings
) -> None:
    topic = shared(1, 3)
    with consumer_of(group_broker, group_id, membership, group_instance_id="me").subscribe(topic) as first:
        assert read(first, 3) == [0, 1, 2]
        with consumer_of(group_broker, group_id, membership, group_instance_id="me").subscribe(topic) as second:
            deadline = Deadline(PATIENCE_MS)
            errors: dict[str, tailrace.ApiError] = {}
            while not errors:
                assert not deadline.is_over
                for name, consumer in (("first", first), ("second", second)):
                    try:
                        consumer.poll(0.02)
                    except tailrace.ApiError as raised:
                        errors[name] = raised
            (name, error), *_ = errors.items()
            is_consumer = membership.get("group_protocol") == "consumer"
            expected = ("second", "UNRELEASED_INSTANCE_ID") if is_consumer else ("first", "FENCED_INSTANCE_ID")
            assert (name, error.code.name) == expected
            with pytest.raises(tailrace.ApiError):  # it stays so
                {"first": first, "second": second}[name].poll(0)


def test_what_only_python_understands_is_matched_here(
    group_broker: str, shared: Shared, group_id: str, membership: Settings, topic: str
) -> None:
    wanted, unwanted = shared(1, 3, f"{topic}-yes"), shared(1, 3, f"{topic}-no")
    pattern = re.compile(rf"{topic}-(?!no).*")  # RE2 has no looking ahead
    with consumer_of(group_broker, group_id, membership, metadata_max_age_ms=100).subscribe(pattern) as consumer:
        assert read(consumer, 3) == [0, 1, 2]
        assert consumer.assignment() == [(wanted, 0)]
        later = shared(1, 1, f"{topic}-later")
        assert read(consumer, 1) == [0]
        assert consumer.assignment() == [(later, 0), (wanted, 0)]
        assert unwanted not in {target.topic for target in consumer.assignment()}


def test_flags_of_a_pattern_are_kept(
    group_broker: str, shared: Shared, group_id: str, membership: Settings, topic: str
) -> None:
    name = shared(1, 1, f"{topic}-Loud")
    pattern = re.compile(f"{topic}-loud", re.IGNORECASE)
    with consumer_of(group_broker, group_id, membership).subscribe(pattern) as consumer:
        assert read(consumer, 1) == [0]
        assert consumer.assignment() == [(name, 0)]


def test_a_read_that_is_cancelled_leaves_the_group_whole(
    group_broker: str, shared: Shared, group_id: str, membership: Settings
) -> None:
    topic = shared(2, 10)

    async def work() -> set[int]:
        found: set[int] = set()
        settings = {"auto_offset_reset": "earliest", **membership}
        async with tailrace.aio.Consumer(group_broker, group_id=group_id, **settings).subscribe(topic) as consumer:
            deadline = Deadline(PATIENCE_MS)
            while len(found) < 10:
                assert not deadline.is_over
                try:
                    async with asyncio.timeout(0.005):  # shorter than any rebalance takes
                        found.add(int((await anext(consumer)).value or b""))
                except TimeoutError:
                    continue
        return found

    assert asyncio.run(work()) == set(range(10))


def test_batches_that_are_cancelled_are_read_again(
    group_broker: str, shared: Shared, group_id: str, monkeypatch: pytest.MonkeyPatch, group_apis: frozenset[int]
) -> None:
    """A batch that a thread had decoded for a reader who was cancelled meanwhile was lost, and committed as read."""
    arrow_decode = pytest.importorskip("tailrace.records.arrow.decode")
    small = partial(arrow_decode.ColumnDecoder, chunk_bytes_max=1)  # a batch for each that was produced
    monkeypatch.setattr(arrow_decode, "ColumnDecoder", small)
    membership = find_membership("eager", group_apis)
    settings: Settings = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 10, **membership}
    topic = shared(1)
    send(group_broker, topic, *range(60))

    async def work() -> list[int]:
        found: list[int] = []
        async with tailrace.aio.Consumer(group_broker, group_id=group_id, **settings).subscribe(topic) as consumer:
            patience_s = 0.002
            while len(found) < 60:
                patience_s *= 1.2  # so that it ends on a slow machine, too
                async with aclosing(consumer.batches(["value"])) as batches:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(patience_s):
                            async for batch in batches:
                                found += map(int, batch["value"].to_pylist())
        return found

    assert asyncio.run(work()) == list(range(60))


def test_batches_after_an_error_between_two_are_read_again(
    group_broker: str, shared: Shared, group_id: str, monkeypatch: pytest.MonkeyPatch, group_apis: frozenset[int]
) -> None:
    """When a rebalance callback raised between two batches of a chunk, the rest of the chunk was skipped."""
    arrow_decode = pytest.importorskip("tailrace.records.arrow.decode")
    monkeypatch.setattr(arrow_decode, "ColumnDecoder", partial(arrow_decode.ColumnDecoder, chunk_bytes_max=1))
    topic = shared(1)
    send(group_broker, topic, *range(20))
    found: list[int] = []

    async def fail() -> None:
        raise ValueError("a callback")

    async def read(consumer: tailrace.aio.Consumer) -> None:
        async for batch in consumer.batches(["value"]):
            found.extend(map(int, batch["value"].to_pylist()))
            if len(found) == 5:
                monkeypatch.setattr(consumer, "_return_to_group", fail)
            if len(found) == 20:
                return

    async def work() -> None:
        settings: Settings = {"auto_offset_reset": "earliest", **find_membership("eager", group_apis)}
        async with tailrace.aio.Consumer(group_broker, group_id=group_id, **settings).subscribe(topic) as consumer:
            with pytest.raises(ValueError, match="a callback"):
                await read(consumer)
            monkeypatch.undo()
            async with asyncio.timeout(60):
                await read(consumer)

    asyncio.run(work())
    assert found == list(range(20))


def test_a_topic_that_comes_later_is_read(
    group_broker: str, shared: Shared, group_id: str, membership: Settings, topic: str
) -> None:
    with consumer_of(group_broker, group_id, membership, metadata_max_age_ms=100).subscribe(topic) as consumer:
        assert consumer.poll(0.3) == []
        shared(1, 2)
        assert read(consumer, 2) == [0, 1]


def test_a_group_finds_itself_again_after_a_restart(
    group_id: str, membership: Settings, group_apis: frozenset[int], topic: str
) -> None:
    """Tailrace's own broker alone: Kafka cannot be started again on the same port here."""
    needed = ApiKey.CONSUMER_GROUP_HEARTBEAT if "group_protocol" in membership else ApiKey.JOIN_GROUP
    if needed not in group_apis or os.environ.get("TAILRACE_TEST_TARGET") == "kafka":
        pytest.skip(f"this broker has no {needed.name}, or is not ours to restart")
    with Broker(PATIENT_GROUPS) as broker:
        broker.create_topic(topic, 1)
        send(broker.bootstrap_servers, topic, 0, 1, 2)
        with consumer_of(broker.bootstrap_servers, group_id, membership).subscribe(topic) as consumer:
            assert read(consumer, 3) == [0, 1, 2]
            consumer.commit()
            broker.restart()
            send(broker.bootstrap_servers, topic, 3)
            assert read(consumer, 1) == [3]
            consumer.commit()
            assert consumer.committed()[tailrace.TopicPartition(topic, 0)] == (4, "", 0)
        with consumer_of(broker.bootstrap_servers, group_id, membership).subscribe(topic) as consumer:
            send(broker.bootstrap_servers, topic, 4)
            assert read(consumer, 1) == [4]


def test_a_group_is_needed_for_what_belongs_to_groups() -> None:
    with tailrace.Consumer("127.0.0.1:1") as consumer:
        with pytest.raises(ValueError, match="rebalance callbacks need a group; set group_id"):
            consumer.subscribe("t", on_assigned=print)
    with tailrace.Consumer("127.0.0.1:1", group_id="g") as consumer:
        consumer.subscribe("t")
        with pytest.raises(ValueError, match="cannot assign partitions while subscribed"):
            consumer.assign([("t", 0)])
        consumer.unsubscribe()
        consumer.assign([("t", 0, 5)])
        with pytest.raises(ValueError, match="cannot subscribe while partitions are assigned"):
            consumer.subscribe("t")
