"""Each invariant, broken by hand."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.sample import make_batch

from tailrace.coordination.layout import node_of
from tailrace.coordination.store import Change, Node
from tailrace.machines.controller.image import Topic
from tailrace.machines.controller.record import PartitionRecord, TopicRecord
from tailrace.protocol.messages.fetch import FetchRequest, FetchResponse, FetchResponsePartition, FetchResponseTopic
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from tailrace.records.batch import assign_offsets
from tailrace.sim.invariant import Invariants, Violation
from tailrace.sim.process import Process

TOPIC_ID = UUID(int=7)


class Replica:
    """A partition with a batch of one record at each offset."""

    def __init__(self, *values: bytes, high_watermark: int = 0, epoch: int = 0, is_leader: bool = False) -> None:
        self.topic, self.topic_id, self.index, self.name = "t", TOPIC_ID, 0, "t-0"
        self.values = list(values)
        self.is_leader = is_leader
        self.leader_epoch = epoch
        self.high_watermark = high_watermark
        self.isr: tuple[int, ...] = (1, 2)
        self.log: Any = self
        self.config = SimpleNamespace(cleanup_policy_compact=False, min_insync_replicas=3)
        self.epochs = SimpleNamespace(epoch_for=lambda _offset: 0)
        self.log_start_offset = 0
        self.is_offline = False

    @property
    def log_end_offset(self) -> int:
        return len(self.values)

    def read(self, offset: int, _size: int, up_to: int, _one: bool) -> bytes:
        found = b""
        for number in range(offset, up_to):
            batch = make_batch(self.values[number])
            assign_offsets(batch, 0, number, 0)
            found += batch
        return found


class Broker:
    """A broker with one replica."""

    def __init__(self, broker_id: int, replica: Replica) -> None:
        self.broker_id = broker_id
        self.host = f"broker-{broker_id}"
        self.process = Process(f"{self.host}.1", self.host)
        self.is_admitted = self.is_up = True
        self.left: dict[Any, Any] = {}
        self.broker = SimpleNamespace(image=SimpleNamespace(topics={}))
        self.fs = SimpleNamespace(hook=None, call_count=0)
        self.replica = replica

    def replicas(self) -> list[Replica]:
        return [self.replica]


class Pair:
    """Two brokers that are looked at."""

    def __init__(self, one: Replica, other: Replica) -> None:
        self.one, self.other = Broker(1, one), Broker(2, other)
        self.invariants = Invariants()
        for broker in (self.one, self.other):
            self.invariants.add(broker)  # type: ignore[arg-type]

    def look(self) -> None:
        for broker in (self.one, self.other):
            self.invariants.touch(broker.replica)  # type: ignore[arg-type]
            self.invariants.after_step(broker.process)


def test_a_leader_and_its_follower_are_fine() -> None:
    pair = Pair(Replica(b"a", b"b", high_watermark=1, is_leader=True), Replica(b"a", high_watermark=1))
    pair.look()
    pair.other.replica.values.append(b"b")
    pair.one.replica.high_watermark = 2
    pair.look()
    assert pair.invariants.check_count == 3


def test_two_leaders_of_one_epoch() -> None:
    pair = Pair(Replica(epoch=3, is_leader=True), Replica(epoch=3, is_leader=True))
    with pytest.raises(Violation, match="epoch 3, which belongs to broker 1"):
        pair.look()


def test_a_leader_that_lacks_what_is_committed() -> None:
    pair = Pair(Replica(b"a", high_watermark=1, is_leader=True), Replica(epoch=1, is_leader=True))
    pair.one.replica.isr = (1,)
    with pytest.raises(Violation, match="it leads with log end offset 0, but the high watermark was 1"):
        pair.look()


def test_a_leader_that_hears_late_of_its_election_needs_only_what_was_committed_before_it() -> None:
    pair = Pair(Replica(b"a", high_watermark=1, epoch=5, is_leader=True), Replica(epoch=4, is_leader=True))
    pair.one.replica.isr = (1,)
    pair.look()


def test_a_high_watermark_that_goes_back() -> None:
    pair = Pair(Replica(b"a", high_watermark=1), Replica())
    pair.look()
    pair.one.replica.high_watermark = 0
    with pytest.raises(Violation, match="goes back from 1 to 0"):
        pair.look()


def test_a_log_that_begins_above_its_high_watermark() -> None:
    """Only committed records are deleted. A replica that forgot it waited for ever after its election."""
    pair = Pair(Replica(b"a", b"b", high_watermark=1), Replica())
    pair.one.replica.log_start_offset = 2
    with pytest.raises(Violation, match="its high watermark is 1, but its log begins at 2"):
        pair.look()


def test_a_replica_whose_disk_failed_in_the_middle_of_a_truncation_is_not_judged() -> None:
    pair = Pair(Replica(b"a", b"b", high_watermark=1), Replica())
    pair.one.replica.log_start_offset = 2
    pair.one.replica.is_offline = True
    pair.look()


def test_replicas_that_differ_below_their_high_watermarks() -> None:
    pair = Pair(Replica(b"a", high_watermark=1), Replica(b"b", high_watermark=1))
    with pytest.raises(Violation, match="the batch at offset 0 differs from the committed one"):
        pair.look()


def test_a_high_watermark_that_the_isr_has_not_reached() -> None:
    pair = Pair(Replica(b"a", high_watermark=1, is_leader=True), Replica())
    with pytest.raises(Violation, match="its high watermark is 1, but broker 2 of its ISR ends at 0"):
        pair.look()


def test_a_broker_that_is_not_admitted_does_not_count() -> None:
    pair = Pair(Replica(b"a", high_watermark=1, is_leader=True), Replica())
    pair.other.is_admitted = False
    pair.look()


def test_who_knows_of_a_later_leader_may_have_begun_again() -> None:
    pair = Pair(Replica(b"a", high_watermark=1, is_leader=True), Replica(epoch=1))
    pair.look()


def test_what_is_not_the_same_at_the_end() -> None:
    pair = Pair(Replica(b"a", high_watermark=1), Replica())
    with pytest.raises(Violation, match="it differs from the replica on broker 1"):
        pair.invariants.check_same()


def test_replicas_may_begin_at_different_offsets() -> None:
    pair = Pair(Replica(b"a", b"b", high_watermark=2), Replica(b"x", b"b", high_watermark=2))
    pair.other.replica.log_start_offset = 1
    pair.invariants.check_same()
    pair.other.replica.values[1] = b"y"
    with pytest.raises(Violation, match="it differs from the replica on broker 1"):
        pair.invariants.check_same()


@pytest.mark.parametrize(("replica_id", "end_offset", "is_wrong"), [(-1, 2, True), (-1, 1, False), (2, 2, False)])
def test_a_fetch_of_what_is_not_committed(replica_id: int, end_offset: int, is_wrong: bool) -> None:
    replica = Replica(b"a", b"b", high_watermark=1)
    pair = Pair(replica, Replica())
    answer = FetchResponsePartition(partition_index=0, records=replica.read(0, 0, end_offset, True))
    response = FetchResponse(responses=[FetchResponseTopic(topic_id=TOPIC_ID, partitions=[answer])])
    request = FetchRequest(replica_id=replica_id)
    if is_wrong:
        with pytest.raises(Violation, match="a consumer gets records up to 2, but the high watermark is 1"):
            pair.invariants.answered(1, request, response)
    else:
        pair.invariants.answered(1, request, response)


@pytest.mark.parametrize(("acks", "code", "is_wrong"), [(-1, 0, True), (-1, 19, False), (1, 0, False)])
def test_an_acknowledgement_of_what_is_not_committed(acks: int, code: int, is_wrong: bool) -> None:
    pair = Pair(Replica(b"a", b"b", high_watermark=1, is_leader=True), Replica())
    answer = ProduceResponsePartition(index=0, error_code=code, base_offset=1)
    response = ProduceResponse(responses=[ProduceResponseTopic(topic_id=TOPIC_ID, partition_responses=[answer])])
    request = ProduceRequest(acks=acks)
    if is_wrong:
        with pytest.raises(Violation, match="it acknowledges offset 1, but the high watermark is 1"):
            pair.invariants.answered(1, request, response)
    else:
        pair.invariants.answered(1, request, response)


@pytest.mark.parametrize(
    ("heard", "known", "is_wrong"),
    [
        ((1, 2), (1, 2), False),
        ((1, 2, 3), (1, 2, 3), True),
        ((1, 2), (1, 2, 3), False),  # the leader has not heard of the third replica yet
        ((1, 2, 3), (1, 2), False),  # the leader has not heard yet that it is gone
    ],
)
def test_min_insync_replicas_counts_the_replicas_that_a_leader_has_heard_of(
    heard: tuple[int, ...], known: tuple[int, ...], is_wrong: bool
) -> None:
    """Two replicas have the record, and min.insync.replicas is 3."""
    pair = Pair(Replica(b"a", high_watermark=1, is_leader=True), Replica(b"a"))
    path, value = node_of(TopicRecord("t", TOPIC_ID, (known,)))
    pair.invariants.committed([Change(path, Node(value, 0))])
    pair.one.broker.image.topics["t"] = Topic("t", TOPIC_ID, (heard,))
    pair.look()
    answer = ProduceResponsePartition(index=0, base_offset=0)
    response = ProduceResponse(responses=[ProduceResponseTopic(topic_id=TOPIC_ID, partition_responses=[answer])])
    if is_wrong:
        with pytest.raises(Violation, match=r"have it, but min\.insync\.replicas is 3"):
            pair.invariants.answered(1, ProduceRequest(acks=-1), response)
    else:
        pair.invariants.answered(1, ProduceRequest(acks=-1), response)


TOPIC = TopicRecord("t", TOPIC_ID, ((1, 2, 3),))
FIRST = PartitionRecord("t", 0, 1, 4, (1, 2))


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (PartitionRecord("t", 0, 1, 4, (1, 9)), "is not a subset of the replicas"),
        (PartitionRecord("t", 0, 3, 5, (1, 2)), "the leader 3 is not in the ISR"),
        (PartitionRecord("t", 0, 2, 4, (1, 2)), "follows"),
        (PartitionRecord("t", 0, 1, 3, (1, 2)), "follows"),
        (PartitionRecord("t", 0, 1, 4, (1, 2, 3)), None),
        (PartitionRecord("t", 0, -1, 5, (1, 2)), None),
        (PartitionRecord("t", 0, 2, 5, (2,)), None),
    ],
)
def test_states_in_the_metadata(state: PartitionRecord, text: str | None) -> None:
    invariants = Invariants()
    records: list[TopicRecord | PartitionRecord] = [TOPIC, FIRST]
    for version, record in enumerate(records):
        path, value = node_of(record)
        invariants.committed([Change(path, Node(value, version))])
    path, value = node_of(state)
    if text is None:
        invariants.committed([Change(path, Node(value, 2))])
    else:
        with pytest.raises(Violation, match=text):
            invariants.committed([Change(path, Node(value, 2))])
