"""What must be true after every step of every broker, whatever goes wrong.

- A leader epoch has one leader, and a leader has all that was ever committed.
- The high watermark of a replica never goes back while it lives.
- What is below any replica's high watermark is the same bytes everywhere, for ever.
- Every live broker in a leader's ISR has all that is below the leader's high watermark.
- A record that is acknowledged is committed.
- In the metadata the ISR is a part of the replicas, the leader is in it, and the leader epoch rises with each leader.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from runnel.coordination.layout import record_of
from runnel.coordination.store import Change, Node
from runnel.machines.controller.record import NO_BROKER, PartitionRecord, TopicRecord
from runnel.protocol.errors import ErrorCode
from runnel.protocol.messages.produce import ProduceRequest, ProduceResponse
from runnel.records.record import read_batches
from runnel.runtime.partition import ACKS_ALL, Partition
from runnel.sim.broker import SimBroker
from runnel.sim.process import Process

_READ_BYTES = 2**20


class Violation(Exception):  # noqa: N818 - says what it is
    """Something happened that must not."""


class _Seen(NamedTuple):
    """A replica as it was after the last step."""

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

    def __init__(self, brokers: Sequence[SimBroker]) -> None:
        self.brokers = {broker.broker_id: broker for broker in brokers}
        self.check_count = 0
        self._by_host = {broker.host: broker for broker in brokers}
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._committed: dict[str, _Committed] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._states: dict[tuple[str, int], PartitionRecord] = {}
        self._assignments: dict[str, TopicRecord] = {}

    # --- replicas

    def after_step(self, process: Process | None) -> None:
        """Look at the broker whose step it was."""
        broker = self._by_host.get(process.host) if process is not None and process.is_alive else None
        if broker is None or process is None or process is not broker.process:
            return
        for partition in broker.replicas():
            key = (process.name, partition.name)
            now = _Seen(partition.is_leader, partition.leader_epoch, partition.high_watermark)
            before = self._seen.get(key)
            if now != before:
                self._seen[key] = now
                self.check_count += 1
                self._check(broker, partition, before, now)

    def _check(self, broker: SimBroker, partition: Partition, before: _Seen | None, now: _Seen) -> None:
        committed = self._committed.setdefault(partition.name, _Committed())
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
        leader = self._leaders.setdefault((partition.name, partition.leader_epoch), broker.broker_id)
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
                end_offset = replica.log.log_end_offset
                if replica.name == partition.name and end_offset < partition.high_watermark:
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
                case PartitionRecord() as state:
                    self._check_state(state, change.node)

    def _check_state(self, state: PartitionRecord, node: Node | None) -> None:
        name = f"{state.topic}-{state.partition}"
        before = self._states.get((state.topic, state.partition))
        self._states[state.topic, state.partition] = state
        topic = self._assignments.get(state.topic)
        if topic is not None and not set(state.isr) <= set(topic.assignment[state.partition]):
            raise Violation(f"{name}: the ISR {state.isr} is no part of {topic.assignment[state.partition]}")
        if state.leader != NO_BROKER and state.leader not in state.isr:
            raise Violation(f"{name}: the leader {state.leader} is not in the ISR {state.isr}")
        if before is None or node is None or node.version == 0:
            return
        if state.leader_epoch < before.leader_epoch or (
            state.leader_epoch == before.leader_epoch and state.leader != before.leader
        ):
            raise Violation(f"{name}: after {before} comes {state}")

    def isrs(self) -> list[tuple[int, ...]]:
        """Who is in sync, partition by partition."""
        return [state.isr for state in self._states.values()]

    def is_whole(self) -> bool:
        """Whether every replica of every partition is in sync and knows all that is committed."""
        return all(
            set(state.isr) == set(self._assignments[state.topic].assignment[state.partition])
            for state in self._states.values()
        ) and all(
            partition.high_watermark == partition.log.log_end_offset
            for broker in self.brokers.values()
            for partition in broker.replicas()
        )

    # --- at the end

    def check_same(self) -> None:
        """When all is quiet, all replicas hold the same bytes."""
        found: dict[str, tuple[int, list[tuple[int, bytes]]]] = {}
        for broker in self.brokers.values():
            for partition in broker.replicas():
                if partition.log.config.cleanup_policy_compact:
                    continue
                content = [] if partition.high_watermark == 0 else list(_batches(broker, partition, 0))
                first = found.setdefault(partition.name, (broker.broker_id, content))
                if first[1] != content:
                    _fail(broker, partition, f"it differs from what broker {first[0]} has")


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
