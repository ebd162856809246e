"""What must be true after every step of every broker, whatever goes wrong.

- A leader epoch has one leader, and a leader has all that was ever committed.
- The high watermark of a replica never goes back while it lives.
- What is below any replica's high watermark is the same bytes everywhere, for ever.
- Every live broker in a leader's ISR has all that is below the leader's high watermark, unless it knows of a later one.
- A record that is acknowledged is committed.
- In the metadata the ISR is a part of the replicas, the leader is in it, and the leader epoch rises with each leader.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from runnel.coordination.layout import record_of
from runnel.coordination.store import Change
from runnel.machines.controller.record import NO_BROKER, ControllerRecord, PartitionRecord, TopicRecord, TopicRemoved
from runnel.protocol.errors import ErrorCode
from runnel.protocol.messages.produce import ProduceRequest, ProduceResponse
from runnel.records.record import read_batches
from runnel.runtime.partition import ACKS_ALL, Partition
from runnel.sim.broker import SimBroker
from runnel.sim.process import Process

_READ_BYTES = 2**20
_Key = tuple[UUID, int]
"""A partition of a topic of this life; a topic that is deleted and made again has another id."""


class Violation(Exception):  # noqa: N818 - says what it is
    """Something happened that must not."""


class _Noticed:
    """An attribute whose every change is noticed. It has no `__get__`, so reading it costs what it did."""

    def __init__(self, name: str, touch: Callable[[Partition], None]) -> None:
        self._name = name
        self._touch = touch

    def __set__(self, partition: Partition, value: object) -> None:
        known = partition.__dict__
        if self._name not in known or known[self._name] != value:
            known[self._name] = value
            self._touch(partition)


class _Seen(NamedTuple):
    """A replica as it was after the last step in which it changed."""

    is_leader: bool
    leader_epoch: int
    high_watermark: int


class _Committed:
    """What was ever committed in one partition: batches by their base offsets, and how far each epoch's leader came."""

    def __init__(self) -> None:
        self.batches: dict[int, bytes] = {}
        self.end_offsets: dict[int, int] = {}

    def end_before(self, leader_epoch: int) -> int:
        """What a leader of that epoch must have. It may hear of its election late, when others have gone on."""
        return max((end for epoch, end in self.end_offsets.items() if epoch < leader_epoch), default=0)


class Invariants:
    """Watches the replicas of all brokers and the metadata."""

    def __init__(self, count: Callable[[str], None] | None = None) -> None:
        """`count` is told of elections, by their kind."""
        self._count = count or (lambda _kind: None)
        self.brokers: dict[int, SimBroker] = {}
        self.check_count = 0
        self._by_host: dict[str, SimBroker] = {}
        self._touched: dict[Partition, None] = {}
        self._seen: dict[Partition, _Seen] = {}
        self._committed: dict[_Key, _Committed] = {}
        self._leaders: dict[tuple[_Key, int], int] = {}
        self._states: dict[tuple[str, int], PartitionRecord] = {}
        self._assignments: dict[str, TopicRecord] = {}

    def add(self, broker: SimBroker) -> None:
        """Watch one more."""
        self.brokers[broker.broker_id] = self._by_host[broker.host] = broker

    # --- replicas

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Notice what becomes of every replica of every broker."""
        for name in _Seen._fields:
            setattr(Partition, name, _Noticed(name, self.touch))
        try:
            yield
        finally:
            for name in _Seen._fields:
                delattr(Partition, name)

    def touch(self, partition: Partition) -> None:
        """Something of a replica has changed; it is looked at when the step is over."""
        self._touched[partition] = None

    def after_step(self, process: Process | None) -> None:
        """Look at what has changed, of the broker whose step it was."""
        if not self._touched:
            return
        touched, self._touched = self._touched, {}
        broker = self._by_host.get(process.host) if process is not None and process.is_alive else None
        if broker is None or process is not broker.process:
            return
        for partition in touched:
            now = _Seen(partition.is_leader, partition.leader_epoch, partition.high_watermark)
            before = self._seen.get(partition)
            if now != before:
                self._seen[partition] = now
                self.check_count += 1
                self._check(broker, partition, before, now)

    def _check(self, broker: SimBroker, partition: Partition, before: _Seen | None, now: _Seen) -> None:
        committed = self._committed.setdefault(_key(partition), _Committed())
        start = 0 if before is None else before.high_watermark
        if now.high_watermark < start:
            _fail(broker, partition, f"its high watermark goes back from {start} to {now.high_watermark}")
        if now.is_leader and (before is None or (before.is_leader, before.leader_epoch) != (True, now.leader_epoch)):
            self._check_new_leader(broker, partition, committed)
        if now.high_watermark > start:
            self._check_content(broker, partition, committed, start)
            if now.is_leader:
                committed.end_offsets[now.leader_epoch] = now.high_watermark
                self._check_isr(broker, partition)

    def _check_new_leader(self, broker: SimBroker, partition: Partition, committed: _Committed) -> None:
        leader = self._leaders.setdefault((_key(partition), partition.leader_epoch), broker.broker_id)
        if leader != broker.broker_id:
            _fail(broker, partition, f"it leads in epoch {partition.leader_epoch}, which is broker {leader}'s")
        own_end, end_offset = partition.log.log_end_offset, committed.end_before(partition.leader_epoch)
        if own_end < end_offset:
            _fail(broker, partition, f"it leads with {own_end} records, {end_offset} are committed")

    def _check_content(self, broker: SimBroker, partition: Partition, committed: _Committed, start: int) -> None:
        if partition.log.config.cleanup_policy_compact:
            return  # each replica compacts for itself
        for base_offset, digest in _batches(broker, partition, start):
            known = committed.batches.setdefault(base_offset, digest)
            if known != digest:
                _fail(broker, partition, f"the batch at offset {base_offset} is another than was committed")

    def _check_isr(self, broker: SimBroker, partition: Partition) -> None:
        for other_id in partition.isr:
            other = self.brokers.get(other_id)
            if other is None or other is broker or not other.is_admitted:
                continue
            for replica in other.replicas():
                # Who knows of a later leader may have been sent away and come back without a record meanwhile.
                is_bound = _key(replica) == _key(partition) and replica.leader_epoch <= partition.leader_epoch
                end_offset = replica.log.log_end_offset
                if is_bound and end_offset < partition.high_watermark:
                    text = f"its high watermark is {partition.high_watermark}, broker {other_id} of its ISR has"
                    _fail(broker, partition, f"{text} {end_offset}")

    # --- acknowledgements

    def answered(self, broker_id: int, request: object, response: object) -> None:
        """A broker is about to send a reply."""
        if not isinstance(request, ProduceRequest) or not isinstance(response, ProduceResponse):
            return
        broker = self.brokers[broker_id]
        if request.acks != ACKS_ALL:
            return
        partitions = {partition.name: partition for partition in broker.replicas()}
        ids = {(partition.topic_id, partition.index): partition for partition in partitions.values()}
        for topic in response.responses:
            for answer in topic.partition_responses:
                partition = partitions.get(f"{topic.name}-{answer.index}") or ids.get((topic.topic_id, answer.index))
                if answer.error_code != ErrorCode.NONE or partition is None:
                    continue
                if answer.base_offset >= partition.high_watermark:
                    text = f"it acknowledges offset {answer.base_offset}, the high watermark is"
                    _fail(broker, partition, f"{text} {partition.high_watermark}")

    # --- metadata

    def committed(self, changes: Sequence[Change]) -> None:
        """The metadata has changed."""
        for change in changes:
            match record_of(change):
                case TopicRecord() as topic:
                    self._assignments[topic.name] = topic
                case TopicRemoved(name):
                    self._forget(name)
                case PartitionRecord() as state:
                    self._check_state(state)
                case ControllerRecord():
                    self._count("controllers elected")
        for state in self._states.values():
            self._check_place(state)

    def _forget(self, topic: str) -> None:
        self._assignments.pop(topic, None)
        self._states = {key: state for key, state in self._states.items() if key[0] != topic}

    def _check_state(self, state: PartitionRecord) -> None:
        name = f"{state.topic}-{state.partition}"
        before = self._states.get((state.topic, state.partition))
        self._states[state.topic, state.partition] = state
        if state.leader != NO_BROKER and state.leader not in state.isr:
            raise Violation(f"{name}: the leader {state.leader} is not in the ISR {state.isr}")
        if before is not None and state.leader_epoch != before.leader_epoch:
            self._count("leaders elected")
        if before is not None and state.isr != before.isr:
            self._count("changes of an ISR")
        if before is not None and (
            state.leader_epoch < before.leader_epoch
            or (state.leader_epoch == before.leader_epoch and state.leader != before.leader)
        ):
            raise Violation(f"{name}: after {before} comes {state}")

    def _check_place(self, state: PartitionRecord) -> None:
        topic = self._assignments.get(state.topic)
        if topic is not None and not set(state.isr) <= set(topic.assignment[state.partition]):
            text = f"the ISR {state.isr} is no part of {topic.assignment[state.partition]}"
            raise Violation(f"{state.topic}-{state.partition}: {text}")

    def isrs(self) -> list[tuple[int, ...]]:
        """Who is in sync, partition by partition."""
        return [state.isr for state in self._states.values()]

    def is_whole(self) -> bool:
        """Whether every replica of every partition is in sync and knows all that is committed."""
        topics = self._assignments
        return all(
            set(state.isr) == set(topics[state.topic].assignment[state.partition])
            and not topics[state.topic].adding.get(state.partition)
            and not topics[state.topic].removing.get(state.partition)
            for state in self._states.values()
        ) and all(
            partition.high_watermark == partition.log.log_end_offset
            for broker in self.brokers.values()
            for partition in broker.replicas()
        )

    # --- at the end

    def check_same(self) -> None:
        """When all is quiet, all replicas hold the same bytes."""
        found: dict[_Key, tuple[int, list[tuple[int, bytes]]]] = {}
        for broker in self.brokers.values():
            for partition in broker.replicas():
                if partition.log.config.cleanup_policy_compact:
                    continue
                content = [] if partition.high_watermark == 0 else list(_batches(broker, partition, 0))
                first = found.setdefault(_key(partition), (broker.broker_id, content))
                if first[1] != content:
                    _fail(broker, partition, f"it differs from what broker {first[0]} has")


def _key(partition: Partition) -> _Key:
    return (partition.topic_id, partition.index)


def _batches(broker: SimBroker, partition: Partition, start: int) -> list[tuple[int, bytes]]:
    """The committed batches from an offset on, each with a digest of its bytes, read behind the broker's back."""
    fs = broker.fs
    hook, count, fs.hook = fs.hook, fs.call_count, None
    try:
        found = []
        log = partition.log
        offset = max(start, log.log_start_offset)
        while offset < partition.high_watermark:
            data = bytes(log.read(offset, _READ_BYTES, partition.high_watermark, True))
            for position, header in read_batches(data):
                digest = blake2b(data[position : position + header.size_bytes], digest_size=8).digest()
                found.append((header.base_offset, digest))
                offset = header.next_offset
        return found
    finally:
        fs.hook, fs.call_count = hook, count


def _fail(broker: SimBroker, partition: Partition, text: str) -> None:
    raise Violation(f"{partition.name} on broker {broker.broker_id}: {text}")
