"""What an outbox is made of: the batches of one partition, and what may leave of all."""

from collections import deque
from dataclasses import dataclass, field

from runnel.client.batch import Batch
from runnel.client.metadata import NO_LEADER
from runnel.client.sequence import PartitionSequence
from runnel.client.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class OutboxOptions:
    """What producers set in Kafka's words: batch.size, linger.ms, buffer.memory and their neighbours."""

    batch_size_bytes: int
    linger_s: float
    buffer_bytes_max: int
    request_bytes_max: int
    delivery_timeout_s: float
    is_idempotent: bool


class Queue:
    """The batches of one partition that are not under way, how many are, and to whom."""

    __slots__ = ("batches", "in_flight_count", "leader_id", "open", "sequence", "target")

    def __init__(self, target: TopicPartition) -> None:
        self.target = target
        self.batches: deque[Batch] = deque()
        self.open: Batch | None = None
        self.in_flight_count = 0
        self.leader_id = NO_LEADER
        self.sequence = PartitionSequence()

    def insert(self, batches: list[Batch]) -> None:
        """Put batches back to where they belong."""
        index = 0
        while index < len(self.batches) and self.batches[index].order < batches[0].order:
            index += 1
        for offset, batch in enumerate(batches):
            self.batches.insert(index + offset, batch)

    def would_overtake(self, leader_id: int) -> bool:
        """Whether a batch for this leader could be written before one that is still under way to another.

        The later one would be taken if the first was written before and only its acknowledgement lost. When enough
        of them have passed, nobody remembers the first one's number, and it would be written again.
        """
        return self.in_flight_count > 0 and self.leader_id != leader_id

    def take(self) -> Batch:
        """The first batch, which nothing can be added to any more."""
        batch = self.batches.popleft()
        batch.is_closed = True
        if batch is self.open:
            self.open = None
        return batch


@dataclass(slots=True)
class Drained:
    """What may leave now, by leader; what is too old; and when to look again, None for not before something happens."""

    requests: dict[int, list[Batch]] = field(default_factory=dict)
    expired: list[Batch] = field(default_factory=list)
    leaderless_topics: set[str] = field(default_factory=set)
    restarting: list[Queue] = field(default_factory=list)
    next_at_s: float | None = None

    def look_again(self, at_s: float) -> None:
        """Have the caller come back at this time or before."""
        self.next_at_s = at_s if self.next_at_s is None else min(self.next_at_s, at_s)
