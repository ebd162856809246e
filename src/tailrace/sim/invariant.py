"""The invariants that hold after every step of every broker, whatever fails.

- A leader epoch has one leader, and a leader has everything below any earlier high watermark.
- The high watermark of a replica never goes back while its process lives.
- Everything below the high watermark of any replica is identical on all replicas, for ever.
- Every live broker in a leader's ISR has everything below the leader's high watermark, unless it knows a later leader.
- An acknowledged record is below the high watermark.
- A consumer gets only records below the high watermark of the replica that it reads from.
- min.insync.replicas replicas had an acknowledged record when it was committed.
- In the metadata, the ISR is a subset of the replicas and contains the leader, and each new leader has a higher epoch.
- A new leader was in the ISR or eligible (KIP-966). If there was none, it was the last one that led.
- No producer id is handed out twice.

Where a topic allows unclean elections, only what the metadata says is checked.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from tailrace.base.sentinel import ACKS_ALL, NO_BROKER
from tailrace.coordination.layout import record_of
from tailrace.coordination.store import Change
from tailrace.machines.controller.record import (
    BrokerAdmitted,
    BrokerRecord,
    ControllerRecord,
    PartitionRecord,
    TopicRecord,
    TopicRemoved,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.fetch import FetchRequest, FetchResponse
from tailrace.protocol.messages.produce import ProduceRequest, ProduceResponse
from tailrace.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse
from tailrace.records.record import read_batches
from tailrace.runtime.partition import Partition
from tailrace.sim.broker import SimBroker, find_replica, replica_of
from tailrace.sim.determinism import in_this_thread
from tailrace.sim.holder import Holders
from tailrace.sim.process import Process
from tailrace.sim.producer_ids import ProducerIdLedger

_READ_BYTES = 2**20
_Key = tuple[UUID, int]
"""A partition by topic id; a topic that is deleted and created again has another id."""


class Violation(Exception):
    """An invariant is violated."""


class _Noticed:
    """An attribute whose changes are observed. It has no `__get__`, so reads stay as fast as before."""

    def __init__(self, name: str, touch: Callable[[Partition], None]) -> None:
        self._name = name
        self._touch = touch

    def __set__(self, partition: Partition, value: object) -> None:
        known = partition.__dict__
        if self._name not in known or known[self._name] != value:
            known[self._name] = value
            self._touch(partition)


_NOTICED = ("role", "high_watermark")
"""The attributes of a partition from which `_Seen` is made."""


class _Seen(NamedTuple):
    """The state of a replica after the last step in which it changed."""

    is_leader: bool
    leader_epoch: int
    high_watermark: int


class _Committed:
    """Everything committed in one partition: batches by base offset, and the high watermark of each epoch's leader."""

    def __init__(self) -> None:
        self.batches: dict[int, bytes] = {}
        self.end_offsets: dict[int, int] = {}

    def end_before(self, leader_epoch: int) -> int:
        """Return the log end offset that a leader of the epoch must have. Later leaders may be ahead of it."""
        return max((end for epoch, end in self.end_offsets.items() if epoch < leader_epoch), default=0)


class Invariants:
    """Checks the replicas of all brokers and the metadata."""

    def __init__(
        self,
        count: Callable[[str], None] | None = None,
        *,
        unclean_topics: Collection[str] = (),
        compacted_topics: Collection[str] = (),
    ) -> None:
        """`count` is called for each election, with its kind; `unclean_topics` allow unclean elections.

        `compacted_topics` may be compacted at times, whatever their config is now.
        """
        self._count = count or (lambda _kind: None)
        self._unclean_topics = unclean_topics
        self._compacted_topics = compacted_topics
        self._producer_ids = ProducerIdLedger()
        self.brokers: dict[int, SimBroker] = {}
        self._holders = Holders(self.brokers)
        self.check_count = 0
        self._by_host: dict[str, SimBroker] = {}
        self._touched: dict[Partition, None] = {}
        self._seen: dict[Partition, _Seen] = {}
        self._committed: dict[_Key, _Committed] = {}
        self._leaders: dict[tuple[_Key, int], int] = {}
        self._states: dict[tuple[str, int], PartitionRecord] = {}
        self._assignments: dict[str, TopicRecord] = {}
        self._unclean: set[int] = set()  # brokers that came back unclean and have not been admitted since

    def add(self, broker: SimBroker) -> None:
        """Check another broker."""
        self.brokers[broker.broker_id] = self._by_host[broker.host] = broker

    # --- replicas

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Observe the replicas of all brokers."""
        for name in _NOTICED:
            setattr(Partition, name, _Noticed(name, in_this_thread(self.touch, lambda _partition: None)))
        try:
            yield
        finally:
            for name in _NOTICED:
                delattr(Partition, name)

    def touch(self, partition: Partition) -> None:
        """Record that a replica changed; it is checked after the step."""
        self._touched[partition] = None

    def after_step(self, process: Process | None) -> None:
        """Check the changed replicas of the broker that ran the step."""
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
        if partition.topic in self._unclean_topics:
            return
        key = _key(partition)
        committed = self._committed.get(key)
        if committed is None:
            committed = self._committed[key] = _Committed()
        start = 0 if before is None else before.high_watermark
        if now.high_watermark < start:
            _fail(broker, partition, f"its high watermark goes back from {start} to {now.high_watermark}")
        # A replica whose disk failed in the middle of a truncation serves nothing until it is opened again.
        if now.high_watermark < (begin := partition.log.log_start_offset) and not partition.is_offline:
            _fail(broker, partition, f"its high watermark is {now.high_watermark}, but its log begins at {begin}")
        if now.is_leader and (before is None or (before.is_leader, before.leader_epoch) != (True, now.leader_epoch)):
            self._check_new_leader(broker, partition, committed)
        if now.high_watermark > start:
            self._check_content(broker, partition, committed, start)
            if now.is_leader:
                committed.end_offsets[now.leader_epoch] = now.high_watermark
                self._check_isr(broker, partition)
                topic = self._assignments.get(partition.topic)
                # Replicas of a topic that is deleted go one by one; its leader may not have heard yet.
                if topic is not None and topic.topic_id == partition.topic_id:
                    self._holders.advanced(partition, _replica_count(broker, partition, topic))

    def _check_new_leader(self, broker: SimBroker, partition: Partition, committed: _Committed) -> None:
        leader = self._leaders.setdefault((_key(partition), partition.leader_epoch), broker.broker_id)
        if leader != broker.broker_id:
            _fail(broker, partition, f"it leads in epoch {partition.leader_epoch}, which belongs to broker {leader}")
        own_end, end_offset = partition.log.log_end_offset, committed.end_before(partition.leader_epoch)
        if own_end < end_offset:
            _fail(broker, partition, f"it leads with log end offset {own_end}, but the high watermark was {end_offset}")

    def _check_content(self, broker: SimBroker, partition: Partition, committed: _Committed, start: int) -> None:
        if self._is_compacted(partition):
            return  # each replica compacts for itself
        if partition.is_offline:
            return  # its disk has failed, so nothing can be read; what it holds is checked on the other replicas
        for base_offset, digest in _batches(broker, partition, start):
            known = committed.batches.setdefault(base_offset, digest)
            if known != digest:
                _fail(broker, partition, f"the batch at offset {base_offset} differs from the committed one")

    def _is_compacted(self, partition: Partition) -> bool:
        return partition.log.config.cleanup_policy_compact or partition.topic in self._compacted_topics

    def _check_isr(self, broker: SimBroker, partition: Partition) -> None:
        for other_id in partition.isr:
            other = self.brokers.get(other_id)
            if other is None or other is broker or not other.is_admitted:
                continue
            replica = replica_of(partition, other.replicas())
            # A replica that knows a later leader may have left the ISR and returned without the records.
            if replica is None or replica.leader_epoch > partition.leader_epoch:
                continue
            end_offset = replica.log.log_end_offset
            if end_offset < partition.high_watermark:
                text = f"its high watermark is {partition.high_watermark}, but broker {other_id} of its ISR ends at"
                _fail(broker, partition, f"{text} {end_offset}")

    # --- acknowledgements

    def answered(self, broker_id: int, request: object, response: object) -> None:
        """Check the acknowledgements, the records for a consumer or the producer id in a reply of a broker."""
        if isinstance(request, FetchRequest) and isinstance(response, FetchResponse):
            if request.replica_id < 0 and request.replica_state is None:
                self._check_fetched(self.brokers[broker_id], response)
            return
        if isinstance(request, InitProducerIdRequest) and isinstance(response, InitProducerIdResponse):
            _refuse(self._producer_ids.answered(request, response))
        if not isinstance(request, ProduceRequest) or not isinstance(response, ProduceResponse):
            return
        broker = self.brokers[broker_id]
        if request.acks != ACKS_ALL:
            return
        for topic in response.responses:
            for answer in topic.partition_responses:
                if answer.error_code != ErrorCode.NONE:
                    continue
                partition = find_replica(broker.replicas(), topic.name, topic.topic_id, answer.index)
                if partition is None or partition.topic in self._unclean_topics:
                    continue
                if answer.base_offset >= partition.high_watermark:
                    text = f"it acknowledges offset {answer.base_offset}, but the high watermark is"
                    _fail(broker, partition, f"{text} {partition.high_watermark}")
                if missing := self._holders.find_missing(partition, answer.base_offset):
                    _fail(broker, partition, f"it acknowledges offset {answer.base_offset}, but {missing}")

    def _check_fetched(self, broker: SimBroker, response: FetchResponse) -> None:
        for topic in response.responses:
            for answer in topic.partitions:
                if not answer.records:
                    continue
                partition = find_replica(broker.replicas(), topic.topic, topic.topic_id, answer.partition_index)
                if partition is None or partition.topic in self._unclean_topics:
                    continue
                data = b"".join(answer.records) if isinstance(answer.records, list) else answer.records
                end_offset = max((header.next_offset for _, header in read_batches(data)), default=0)
                if end_offset > partition.high_watermark:
                    text = f"a consumer gets records up to {end_offset}, but the high watermark is"
                    _fail(broker, partition, f"{text} {partition.high_watermark}")

    # --- metadata

    def committed(self, changes: Sequence[Change]) -> None:
        """Check a change of the metadata."""
        _refuse(self._producer_ids.committed(changes))
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
                case BrokerRecord(broker_id, is_clean=False):
                    self._unclean.add(broker_id)
                case BrokerAdmitted(broker_id, epoch) if epoch >= 0:
                    self._unclean.discard(broker_id)
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
        if before is not None and state.leader not in (NO_BROKER, before.leader):
            self._check_election(before, state)
        if before is not None and state.isr != before.isr:
            self._count("changes of an ISR")
        if before is not None and (
            state.leader_epoch < before.leader_epoch
            or (state.leader_epoch == before.leader_epoch and state.leader != before.leader)
        ):
            raise Violation(f"{name}: {state} follows {before}")

    def _check_election(self, before: PartitionRecord, state: PartitionRecord) -> None:
        """Check that a new leader was eligible, or the last one that led if the eligible ones came back unclean."""
        eligible = {*before.isr, *before.elr}
        is_left = not eligible <= self._unclean
        if state.leader in eligible or (not is_left and state.leader in (*before.last_known_elr, before.leader)):
            return
        if state.topic not in self._unclean_topics:
            raise Violation(f"{state.topic}-{state.partition}: an unclean election: {state} follows {before}")
        self._count("unclean elections")

    def _check_place(self, state: PartitionRecord) -> None:
        topic = self._assignments.get(state.topic)
        if topic is not None and not set(state.isr) <= set(topic.assignment[state.partition]):
            text = f"the ISR {state.isr} is not a subset of the replicas {topic.assignment[state.partition]}"
            raise Violation(f"{state.topic}-{state.partition}: {text}")

    def isrs(self) -> list[tuple[int, ...]]:
        """Return the ISR of each partition."""
        return [state.isr for state in self._states.values()]

    def find_unfinished(self) -> list[str]:
        """Return what keeps the replicas from being in sync, committed, and without what their leaders have deleted."""
        found = []
        for state in self._states.values():
            topic = self._assignments[state.topic]
            is_moving = topic.adding.get(state.partition) or topic.removing.get(state.partition)
            if is_moving or set(state.isr) != set(topic.assignment[state.partition]):
                found.append(f"{state}, while its replicas are {topic.assignment[state.partition]}")
        replicas = [(broker, partition) for broker in self.brokers.values() for partition in broker.replicas()]
        starts = {_key(each): each.log.log_start_offset for _, each in replicas if each.is_leader}
        for broker, partition in replicas:
            name, log = f"{partition.name} on broker {broker.broker_id}", partition.log
            if partition.high_watermark != log.log_end_offset:
                found.append(
                    f"{name} ends at {log.log_end_offset}, and its high watermark is {partition.high_watermark}"
                )
            if log.log_start_offset < (start := starts.get(_key(partition), 0)):  # its own retention may delete more
                found.append(f"{name} starts at {log.log_start_offset}, and its leader at {start}")
        return found

    # --- at the end

    def check_same(self) -> None:
        """Check that all replicas are identical at the end."""
        found: dict[_Key, tuple[int, int, list[tuple[int, bytes]]]] = {}
        for broker in self.brokers.values():
            for partition in broker.replicas():
                if self._is_compacted(partition):
                    continue
                content = [] if partition.high_watermark == 0 else list(_batches(broker, partition, 0))
                start = partition.log.log_start_offset
                other_id, other_start, other = found.setdefault(_key(partition), (broker.broker_id, start, content))
                # Each replica applies retention for itself, so one may begin later.
                start = max(start, other_start)
                if _from(start, content) != _from(start, other):
                    _fail(broker, partition, f"it differs from the replica on broker {other_id}")


def _replica_count(broker: SimBroker, partition: Partition, topic: TopicRecord) -> int:
    """Return how many replicas a partition has: as its leader has heard, or as the metadata says if that is fewer.

    A leader that has not heard yet of another replica, or of its first follower, requires no more than there were. A
    replica that is removed may have deleted its log before the leader hears of that.
    """
    count = len(topic.assignment[partition.index])
    heard = None if broker.broker is None else broker.broker.image.topics.get(partition.topic)
    if heard is None or heard.topic_id != partition.topic_id:
        return count
    return min(count, len(heard.assignment[partition.index]))


def _key(partition: Partition) -> _Key:
    return (partition.topic_id, partition.index)


def _batches(broker: SimBroker, partition: Partition, start: int) -> list[tuple[int, bytes]]:
    """Return the committed batches from an offset on with digests, without counting file system calls."""
    fs = broker.fs
    hook, count, fs.hook = fs.hook, fs.call_count, None
    try:
        found = []
        log = partition.log
        offset = max(start, log.log_start_offset)
        while offset < partition.high_watermark:
            data = bytes(log.read(offset, _READ_BYTES, partition.high_watermark, True))
            view = memoryview(data)
            for position, header in read_batches(data):
                digest = blake2b(view[position : position + header.size_bytes], digest_size=8).digest()
                found.append((header.base_offset, digest))
                offset = header.next_offset
        return found
    finally:
        fs.hook, fs.call_count = hook, count


def _from(offset: int, batches: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return the batches that begin at an offset or later."""
    return [batch for batch in batches if batch[0] >= offset]


def _refuse(text: str | None) -> None:
    if text is not None:
        raise Violation(text)


def _fail(broker: SimBroker, partition: Partition, text: str) -> None:
    raise Violation(f"{partition.name} on broker {broker.broker_id}: {text}")
