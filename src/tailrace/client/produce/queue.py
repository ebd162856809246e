"""The parts of an outbox: the queue of one partition, and the batches that can be sent."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from tailrace.base.invariant import invariant
from tailrace.client.metadata import NO_LEADER
from tailrace.client.produce.batch import Batch
from tailrace.client.produce.sequence import PartitionSequence
from tailrace.client.topic_partition import TopicPartition

SILENCE_S = 60.0
"""The time after which a broker may have forgotten a producer that has sent nothing; by default that is a day."""


class Place(NamedTuple):
    """The connection that a batch is written to, and the topic that its request names; None without a topic id."""

    connection: object
    topic_id: UUID | None


@dataclass(frozen=True, slots=True)
class OutboxOptions:
    """Kafka's configs of an outbox: batch.size, linger.ms, buffer.memory and the like."""

    batch_size_bytes: int
    linger_s: float
    buffer_bytes_max: int
    request_bytes_max: int
    delivery_timeout_s: float
    is_idempotent: bool
    has_one_in_flight: bool = False
    """Whether each leader gets one request at a time, which keeps batches in order without sequence numbers."""

    @property
    def is_ordered(self) -> bool:
        """Whether no batch of a partition may be written before an earlier one."""
        return self.is_idempotent or self.has_one_in_flight


class Queue:
    """The batches of one partition to send, the number of batches in flight, and their leader."""

    __slots__ = (
        "batches",
        "in_flight_count",
        "known_place",
        "leader_id",
        "open",
        "place",
        "sequence",
        "taken_at_s",
        "target",
    )

    def __init__(self, target: TopicPartition) -> None:
        self.target = target
        self.batches: deque[Batch] = deque()
        self.open: Batch | None = None
        self.in_flight_count = 0
        self.place: Place | None = None  # where the batches in flight were written to
        self.known_place: Place | None = None  # where the broker has acknowledged a batch, and knows the producer
        self.taken_at_s = float("-inf")
        self.leader_id = NO_LEADER
        self.sequence = PartitionSequence()

    def insert(self, batches: list[Batch]) -> None:
        """Put batches back in their order."""
        index = 0
        while index < len(self.batches) and self.batches[index].order < batches[0].order:
            index += 1
        for offset, batch in enumerate(batches):
            self.batches.insert(index + offset, batch)

    def would_overtake(self, leader_id: int) -> bool:
        """Return whether a batch for this leader could be written before one that is in flight to another.

        The new leader accepts the later batch if the first one was written and only its acknowledgement was lost.
        After enough batches it no longer remembers the first one's number, and would write it again.
        """
        return self.in_flight_count > 0 and self.leader_id != leader_id

    def must_wait(self, batch: Batch, place: Place) -> bool:
        """Return whether a batch that was taken could overtake an earlier one if it were written to this place.

        The earlier one waits to be sent again, or is in flight on another connection, which was lost. Or the broker may
        not know the producer, after it was restarted or elected, or because the topic was made again. Such a broker
        accepts any number. If it rejected the earlier batch for another reason, it would accept the later one.
        """
        is_earlier_waiting = bool(self.batches) and self.batches[0].order < batch.order
        return is_earlier_waiting or (self.in_flight_count > 1 and not place == self.place == self.known_place)

    def leave_flight(self) -> None:
        """Count one batch less in flight."""
        invariant(self.in_flight_count > 0, f"{self.target} has no batch in flight")
        self.in_flight_count -= 1
        if self.in_flight_count == 0:
            self.place = None

    def enter_flight(self, leader_id: int, now_s: float) -> Batch:
        """Take the first batch for a leader."""
        if now_s - self.taken_at_s >= SILENCE_S:
            self.known_place = None
        self.taken_at_s = now_s
        self.leader_id = leader_id
        self.in_flight_count += 1
        return self.take()

    def take(self) -> Batch:
        """Take the first batch, and close it."""
        batch = self.batches.popleft()
        batch.is_closed = True
        if batch is self.open:
            self.open = None
        return batch


@dataclass(slots=True)
class Drained:
    """The batches to send by leader, those that expired, and the time of the next look, None for no time."""

    requests: dict[int, list[Batch]] = field(default_factory=dict)
    expired: list[Batch] = field(default_factory=list)
    leaderless_topics: set[str] = field(default_factory=set)
    restarting: list[Queue] = field(default_factory=list)
    next_at_s: float | None = None

    def look_again(self, at_s: float) -> None:
        """Request the next look at this time or earlier."""
        self.next_at_s = at_s if self.next_at_s is None else min(self.next_at_s, at_s)
