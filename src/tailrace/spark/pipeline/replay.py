"""The replay of dead letters: their records are sent again to the topics that they came from.

A consumer group remembers how far a flow's dead letters were replayed. Its offsets are committed in the transaction
that writes the records, so a replay that is interrupted sends nothing twice. Dead letters arrive at least once: of
several with the same origin, one is sent, and none whose origin an earlier replay has sent.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from tailrace.base.limits import SPARK_DEAD_LETTER_BYTES_MAX, SPARK_DEAD_LETTERS_READ_MAX
from tailrace.client.admin.sync import Admin
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.fetch.table import read_table
from tailrace.client.group.offset import GroupMetadata
from tailrace.client.metadata import Topic
from tailrace.client.offset import EARLIEST, LATEST
from tailrace.client.produce.producer import Producer
from tailrace.protocol.errors import ErrorCode
from tailrace.spark.dead_letter import DeadLetter
from tailrace.spark.error import PipelineError

Origin = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """A topic with dead letters, as it was when it was opened."""

    name: str
    client: Mapping[str, str]
    bounds: Mapping[int, tuple[int, int]]
    """The first offset and the end of each partition."""

    @classmethod
    def open(cls, name: str, client: Mapping[str, str]) -> Self:
        """Look where the partitions begin and end; raises `PipelineError` if there is no such topic."""
        with Admin(config=dict(client)) as admin:
            found = admin.describe_topics([name])[name]
            if not isinstance(found, Topic):
                if found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise PipelineError(f"there is no topic {name}; a pipeline creates it when it first runs")
                raise PipelineError(f"topic {name} cannot be read: {found}")
            partitions = range(len(found.partitions))
            first = admin.list_offsets(name, dict.fromkeys(partitions, EARLIEST))
            last = admin.list_offsets(name, dict.fromkeys(partitions, LATEST), Isolation.READ_COMMITTED)
        return cls(name, client, {index: (first[index].offset, last[index].offset) for index in partitions})

    def read(self, partition: int, start: int, end: int) -> Iterator[DeadLetter]:
        """Read the dead letters between two offsets of a partition."""
        for first in range(start, end, SPARK_DEAD_LETTERS_READ_MAX):
            table = read_table(
                self.client["bootstrap.servers"],
                self.name,
                start=first,
                end=min(end, first + SPARK_DEAD_LETTERS_READ_MAX),
                partitions=[partition],
                columns=["offset", "timestamp", "key", "value", "headers"],
                config={name: text for name, text in self.client.items() if name != "bootstrap.servers"},
                isolation_level="read_committed",
            )
            times_us = table.column("timestamp").cast("int64").to_pylist()
            for row, time_us in zip(table.drop_columns("timestamp").to_pylist(), times_us, strict=True):
                headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
                yield DeadLetter(partition, row["offset"], time_us // 1000, row["key"], row["value"], headers)

    def newest(self, count: int, flows: Collection[str] = ()) -> list[DeadLetter]:
        """Return the newest dead letters, or those of some flows, oldest first."""
        found = [letter for partition in self.bounds for letter in self._newest_of(partition, count, flows)]
        found.sort(key=lambda letter: (letter.timestamp_ms, letter.partition, letter.offset))
        return found[-count:]

    def _newest_of(self, partition: int, count: int, flows: Collection[str]) -> list[DeadLetter]:
        """Return at least so many dead letters of a partition, if it has them. Those of other flows are read, too."""
        found: list[DeadLetter] = []
        first, end = self.bounds[partition]
        while first < end and len(found) < count:
            start = max(first, end - SPARK_DEAD_LETTERS_READ_MAX)
            found = [each for each in self.read(partition, start, end) if not flows or each.flow in flows] + found
            end = start
        return found


@dataclass(slots=True)
class Found:
    """What a replay would do."""

    chosen: dict[int, list[int]] = field(default_factory=dict)
    """The offsets of the dead letters to send, by partition."""
    ends: dict[int, int] = field(default_factory=dict)
    """Where the next replay begins, by partition."""
    topics: set[str] = field(default_factory=set)
    repeated: int = 0
    rows: int = 0
    foreign: int = 0

    @property
    def count(self) -> int:
        """How many records are sent."""
        return sum(map(len, self.chosen.values()))


class Replay:
    """The replay of one flow's dead letters. `sources` are the topics that the flow reads."""

    def __init__(self, topic: str, flow: str, sources: set[str], group: str, client: Mapping[str, str]) -> None:
        self._flow = flow
        self._sources = sources
        self._group = group
        self._client = client
        config = {**client, "transactional.id": group, "max.request.size": str(SPARK_DEAD_LETTER_BYTES_MAX)}
        self._letters = DeadLetterTopic.open(topic, client)
        self._producer = Producer(config=config)

    def __enter__(self) -> Self:
        try:
            self._producer.init_transactions()  # before the offsets are read, so that another replay cannot change them
        except BaseException:
            self._producer.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._producer.close()

    def find(self, limit: int | None) -> Found:
        """Return which dead letters are to be sent: those of the flow behind the group's offsets, or some of them."""
        name, bounds = self._letters.name, self._letters.bounds
        with Admin(config=dict(self._client)) as admin:
            committed = admin.list_group_offsets(self._group, [(name, partition) for partition in bounds])
        starts = {
            target.partition: min(max(at.offset, bounds[target.partition][0]), bounds[target.partition][1])
            for target, at in committed.items()
        }
        starts = {partition: starts.get(partition, first) for partition, (first, _) in bounds.items()}
        sent = {
            letter.origin
            for partition, start in starts.items()
            for letter in self._letters.read(partition, bounds[partition][0], start)
            if letter.flow == self._flow and letter.is_record
        }
        found = Found()
        for partition, start in starts.items():
            for letter in self._letters.read(partition, start, bounds[partition][1]):
                if limit is not None and found.count >= limit:
                    break
                self._consider(letter, found, sent)
            else:
                if start < bounds[partition][1]:
                    found.ends[partition] = bounds[partition][1]
        return found

    def _consider(self, letter: DeadLetter, found: Found, sent: "set[Origin | None]") -> None:
        found.ends[letter.partition] = letter.offset + 1
        if letter.flow != self._flow:
            return
        if not letter.is_record or letter.origin is None:
            found.rows += 1
        elif letter.origin[0] not in self._sources:
            found.foreign += 1
        elif letter.origin in sent:
            found.repeated += 1
        else:
            sent.add(letter.origin)
            found.chosen.setdefault(letter.partition, []).append(letter.offset)
            found.topics.add(letter.origin[0])

    def send(self, found: Found) -> None:
        """Send the records, and commit the offsets of the group with them."""
        for partition, end in found.ends.items():
            offsets = found.chosen.get(partition, [])
            while len(offsets) > SPARK_DEAD_LETTERS_READ_MAX:
                part, offsets = offsets[:SPARK_DEAD_LETTERS_READ_MAX], offsets[SPARK_DEAD_LETTERS_READ_MAX:]
                self._send_part(partition, part, part[-1] + 1)
            self._send_part(partition, offsets, end)

    def _send_part(self, partition: int, offsets: list[int], end: int) -> None:
        wanted = frozenset(offsets)
        with self._producer.transaction():
            letters = self._letters.read(partition, offsets[0], offsets[-1] + 1) if offsets else iter(())
            for letter in letters:
                if letter.offset in wanted and letter.origin is not None:
                    self._producer.send(
                        letter.origin[0],
                        letter.value,
                        letter.key,
                        letter.replay_headers(),
                        partition=letter.origin[1],
                        timestamp_ms=letter.record_timestamp_ms,
                    )
            self._producer.send_offsets({(self._letters.name, partition): end}, GroupMetadata(self._group))
