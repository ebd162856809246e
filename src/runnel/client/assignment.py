"""What a consumer reads: partitions, and how far each has been asked for and handed out.

A place that is a time or a word becomes an offset only when somebody has asked a broker. Whatever
moves a partition elsewhere gives it a new generation, and what was fetched for an older one is dropped.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias
from uuid import UUID

from runnel.client.metadata import NO_EPOCH
from runnel.client.place import Place
from runnel.client.topic_partition import TopicPartition
from runnel.protocol.primitive import ZERO_UUID

LeaderEpochs: TypeAlias = tuple[tuple[int, int], ...]
"""Where leader epochs begin: offsets and epochs, both rising."""


class PartitionState:
    """Where one partition stands. `place` is None once `position` is known."""

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
        "target",
        "topic_id",
    )

    def __init__(self, target: TopicPartition, place: Place, generation: int) -> None:
        self.target = target
        self.is_paused = False
        self.is_busy = False  # something is being asked about it
        self.end_offset: int | None = None  # behind what may be read, as the last fetch told
        self.topic_id: UUID | None = None  # of the topic that the position is in, once something was asked of it
        self.position = -1
        self.fetch_offset = -1
        self.place: Place | None = None
        self.error: Exception | None = None
        self.leader_epochs: LeaderEpochs = ()
        self.generation = generation
        self.move(place, generation)

    def move(self, place: Place, generation: int) -> None:
        """Go on elsewhere."""
        self.generation = generation
        self.error = None
        self.topic_id = None
        if place.offset is None:
            self.place = place
        else:
            self.settle(place.offset)

    def settle(self, offset: int, leader_epoch: int = NO_EPOCH) -> None:
        """Go on at an offset; the epoch is that of the record before it, if it is known."""
        self.place = None
        self.position = self.fetch_offset = offset
        self.leader_epochs = ((0, leader_epoch),)

    @property
    def leader_epoch(self) -> int:
        """The epoch of the last record that was handed out; -1 when it is not known."""
        last = self.position - 1
        return next((epoch for start, epoch in reversed(self.leader_epochs) if start <= last), NO_EPOCH)

    def is_in(self, topic_id: UUID | None) -> bool:
        """Whether the position is in the topic of this id, as far as ids are known; the name may be another's now."""
        return self.topic_id is None or topic_id in (None, ZERO_UUID, self.topic_id)

    @property
    def lag(self) -> int | None:
        """How many offsets are left to be handed out, records or not; None while that is not known."""
        return None if self.end_offset is None or self.place is not None else max(0, self.end_offset - self.position)

    @property
    def is_fetchable(self) -> bool:
        """Whether a fetch may ask for more of it now."""
        return self.place is None and not self.is_busy and not self.is_paused and self.error is None


class Assignment:
    """The partitions that are read, in the order in which they were fetched longest ago."""

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
        """The state of a partition that is read."""
        return self._states.get(TopicPartition(*target))

    def find(self, target: tuple[str, int]) -> PartitionState:
        """The state of a partition; raises ValueError for one that is not read."""
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
        """Read a partition no more; what is being handed out of it ends."""
        state = self._states.pop(target, None)
        if state is not None:
            state.generation = self.next_generation()

    def move(self, target: tuple[str, int], place: Place) -> None:
        """Read a partition from elsewhere."""
        self.find(target).move(place, self.next_generation())

    def put_last(self, state: PartitionState) -> None:
        """Have the others asked for first next time: a fetch may be full before its last partitions."""
        if self._states.pop(state.target, None) is not None:
            self._states[state.target] = state

    def next_generation(self) -> int:
        """A number that nothing under way has."""
        self._generation += 1
        return self._generation

    def is_current(self, state: PartitionState, generation: int) -> bool:
        """Whether what was asked for in that generation is still wanted."""
        return self._states.get(state.target) is state and state.generation == generation
