"""The topics that have had one name in turn, and in which of them brokers acknowledged each value."""

from collections.abc import Callable, Iterator, Sequence
from typing import cast
from uuid import UUID

from tailrace.coordination.layout import record_of
from tailrace.coordination.store import Change
from tailrace.machines.controller.record import TopicHidden, TopicRecord, TopicRemoved
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.produce import ProduceRequest, ProduceResponse
from tailrace.protocol.primitive import ZERO_UUID
from tailrace.records.record import read_batches, read_records
from tailrace.sim.broker import SimBroker


class Incarnations:
    """Numbers the topics with one name, from the commits of metadata; 0 is none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.is_there = False
        self.on_next: Callable[[], None] = lambda: None
        self._numbers: dict[UUID, int] = {}
        self._acknowledged: dict[str, set[int]] = {}

    def committed(self, changes: Sequence[Change]) -> None:
        """Take in a change of the metadata."""
        for change in changes:
            match record_of(change):
                case TopicRecord(name, topic_id) if name == self.name:
                    self.is_there = True
                    if topic_id not in self._numbers:
                        self.number += 1
                        self._numbers[topic_id] = self.number
                        self.on_next()
                case TopicHidden(name) | TopicRemoved(name) if name == self.name:
                    if self.is_there:
                        self.is_there = False
                        self.on_next()

    @property
    def current(self) -> int:
        """The number of the topic that is there, or else of the next one."""
        return self.number if self.is_there else self.number + 1

    def acknowledged_in(self, value: str) -> set[int]:
        """Return the incarnations in which a broker acknowledged a value."""
        return self._acknowledged.get(value, set())

    def answered(self, broker: SimBroker, request: object, response: object) -> None:
        """Take in the answer to a producer."""
        if not self.number or not isinstance(request, ProduceRequest) or not isinstance(response, ProduceResponse):
            return
        for asked, topic in zip(request.topic_data, response.responses, strict=True):
            number = self._numbers.get(self._topic_id(broker, asked.name, asked.topic_id), 0)
            answers = {answer.index: answer for answer in topic.partition_responses}
            for partition in asked.partition_data if number else ():
                if answers[partition.index].error_code == ErrorCode.NONE:
                    for value in _values(cast("memoryview", partition.records)):
                        self._acknowledged.setdefault(value, set()).add(number)

    def _topic_id(self, broker: SimBroker, name: str, topic_id: UUID) -> UUID:
        if name != self.name or topic_id != ZERO_UUID:
            return topic_id
        return next((each.topic_id for each in broker.replicas() if each.name.startswith(f"{name}-")), topic_id)


def _values(data: memoryview) -> Iterator[str]:
    for position, _ in read_batches(data):
        for record in read_records(data, position):
            yield bytes(record.value or b"").decode()
