"""The partitions that a consumer reads, and the position of each.

A time or a word becomes an offset only after a request to a broker. Every seek gives a partition a new
generation, and data that was fetched for an older generation is dropped.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias
from uuid import UUID

from tailrace.base.sentinel import NO_EPOCH
from tailrace.client.error import OffsetMissing
from tailrace.client.place import Place
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.primitive import ZERO_UUID

LeaderEpochs: TypeAlias = tuple[tuple[int, int], ...]
"""Where leader epochs begin: offsets and epochs, both rising."""


class PartitionState:
    """The state of one partition. `place` is None once `position` is known."""

    __slots__ = (
        "end_offset",
        "error",
        "fetch_offset",
        "generation",
        "is_busy",
        "is_paused",
        "leader_epochs",
        "place",
        "position",
        "refused_at",
        "target",
        "topic_id",
    )

    def __init__(self, target: TopicPartition, place: Place, generation: int) -> None:
        self.target = target
        self.is_paused = False
        self.is_busy = False  # a request about it is in flight
        self.end_offset: int | None = None  # the end of what may be read, as of the last fetch
        self.topic_id: UUID | None = None  # of the topic that the position belongs to, once it was fetched from
        self.position = -1
        self.fetch_offset = -1
        self.refused_at: tuple[int, int] | None = None  # the position that a broker did not have, and its epoch
        self.place: Place | None = None
        self.error: Exception | None = None
        self.leader_epochs: LeaderEpochs = ()
        self.generation = generation
        self.move(place, generation)

    def move(self, place: Place, generation: int) -> None:
        """Continue at another place."""
        self.generation = generation
        self.error = self.refused_at = None
        self.topic_id = None
        if place.offset is None:
            self.place = place
        else:
            self.settle(place.offset)

    def refuse(self, reset: Place, generation: int) -> None:
        """Continue at another place, because a broker does not have the position."""
        refused_at = self.position, self.leader_epoch
        self.move(reset, generation)
        self.refused_at = refused_at

    def settle(self, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Continue at an offset; the epoch is that of the record before it, if it is known."""
        self.place = self.error = self.refused_at = None
        self.position = self.fetch_offset = offset
        self.leader_epochs = ((0, leader_epoch),)

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last record that was returned; -1 if it is unknown."""
        last = self.position - 1
        return next((epoch for start, epoch in reversed(self.leader_epochs) if start <= last), NO_EPOCH)

    def is_in(self, topic_id: UUID | None) -> bool:
        """Return whether the position belongs to the topic of this id, as far as ids are known; names can be reused."""
        return self.topic_id is None or topic_id in (None, ZERO_UUID, self.topic_id)

    @property
    def lag(self) -> int | None:
        """The number of offsets up to the end, with or without records; None while the end is unknown."""
        return None if self.end_offset is None or self.place is not None else max(0, self.end_offset - self.position)

    @property
    def is_placed(self) -> bool:
        """Whether its position, or what is wrong with it, is known."""
        return self.place is None or self.error is not None

    @property
    def is_lost(self) -> bool:
        """Whether its offset is to be looked up. If it has none, the reader has to seek first."""
        return self.place is not None and not self.is_busy and not isinstance(self.error, OffsetMissing)

    @property
    def is_fetchable(self) -> bool:
        """Whether the next fetch may include it."""
        return self.place is None and not self.is_busy and not self.is_paused and self.error is None


class Assignment:
    """The partitions that are read; the one whose last fetch is the oldest comes first."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}
        self._generation = 0

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, target: object) -> bool:
        return target in self._states

    def get(self, target: tuple[str, int]) -> PartitionState | None:
        """Return the state of a partition, or None if it is not read."""
        return self._states.get(TopicPartition(*target))

    def find(self, target: tuple[str, int]) -> PartitionState:
        """Return the state of a partition; raises ValueError if it is not read."""
        state = self.get(target)
        if state is None:
            raise ValueError(f"{TopicPartition(*target)} is not assigned to this consumer")
        return state

    def replace(self, places: Iterable[tuple[TopicPartition, Place]]) -> None:
        """Read these partitions and no others."""
        self._states = {}
        for target, place in places:
            self.add(target, place)

    def add(self, target: TopicPartition, place: Place) -> None:
        """Read one more partition, unless it is read already."""
        if target not in self._states:
            self._states[target] = PartitionState(target, place, self.next_generation())

    def remove(self, target: TopicPartition) -> None:
        """Stop reading a partition; its remaining records are dropped."""
        state = self._states.pop(target, None)
        if state is not None:
            state.generation = self.next_generation()

    def move(self, target: tuple[str, int], place: Place) -> None:
        """Continue a partition at another place."""
        self.find(target).move(place, self.next_generation())

    def put_last(self, state: PartitionState) -> None:
        """Move a partition to the end of the next fetch, which may be full before its last partitions."""
        if self._states.pop(state.target, None) is not None:
            self._states[state.target] = state

    def next_generation(self) -> int:
        """Return a generation that no request in flight has."""
        self._generation += 1
        return self._generation

    def is_current(self, state: PartitionState, generation: int) -> bool:
        """Return whether data that was fetched in that generation is still wanted."""
        return self._states.get(state.target) is state and state.generation == generation
