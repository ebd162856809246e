"""The history of a run of copiers: from the lines that they printed and from what is in the topic that they wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Event = dict[str, Any]


class Copy(NamedTuple):
    """A record of the target, taken apart."""

    value: str
    partition: int
    offset: int
    copier: str
    number: int

    @classmethod
    def of(cls, value: bytes) -> Copy:
        text, partition, offset, copier, number = value.decode().rsplit(" ", 4)
        return cls(text, int(partition), int(offset), copier, int(number))


class Line(NamedTuple):
    """A line of a copier."""

    time_ms: float
    word: str
    rest: list[str]

    @classmethod
    def of(cls, text: str) -> Line:
        time_us, word, *rest = text.split()
        return cls(int(time_us) / 1000, word, rest)


class Place(NamedTuple):
    """Where a value is in the target's log, whoever may see it."""

    partition: int
    offset: int
    value: bytes


class CopierHistory:
    """The events of one copier."""

    def __init__(self, name: str, transactional_id: str, source: str, target: str, group: str) -> None:
        self.name = name
        self._id = transactional_id
        self._source = source
        self._target = target
        self._group = group
        self._count = 0

    def events(self, lines: Iterable[Line], written: dict[int, list[Place]]) -> Iterator[Event]:
        """What the copier did. `written` has what it wrote, by the number of the transaction."""
        opened: dict[str, int] = {}
        for line in lines:
            if line.word == "init":
                yield self._invoke(line.time_ms, "init", opened, "init", transactional_id=self._id)
            elif line.word == "ready":
                yield self._end(line.time_ms, "init", opened.pop("init"), "ok")
            else:
                yield from self._transaction(line, int(line.rest[0]), opened, written)

    def _transaction(
        self, line: Line, number: int, opened: dict[str, int], written: dict[int, list[Place]]
    ) -> Iterator[Event]:
        time_ms, transaction = line.time_ms, f"{self.name}:{number}"
        if line.word == "begin":
            yield self._invoke(time_ms, "begin", opened, "begin", transaction=transaction, transactional_id=self._id)
            yield self._end(time_ms, "begin", opened.pop("begin"), "ok")
            yield from self._sends(time_ms, transaction, written.get(number, []))
        elif line.word == "offsets":
            pairs = (pair.split(":") for pair in line.rest[1:])
            offsets = {f"{self._source}-{partition}": int(offset) for partition, offset in pairs}
            yield self._invoke(
                time_ms, "offsets", opened, "offsets", transaction=transaction, group=self._group, offsets=offsets
            )
        elif line.word in ("commit", "abort"):
            if "offsets" in opened:
                yield self._end(time_ms, "offsets", opened.pop("offsets"), "ok" if line.word == "commit" else "info")
            commit = line.word == "commit"
            yield self._invoke(time_ms, "end", opened, line.word, transaction=transaction, commit=commit)
        elif line.word != "stalled":
            begun, outcome = {"committed": ("commit", "ok"), "aborted": ("abort", "ok"), "refused": ("commit", "fail")}[
                line.word
            ]
            yield self._end(time_ms, "end", opened.pop(begun), outcome)

    def _sends(self, time_ms: float, transaction: str, places: list[Place]) -> Iterator[Event]:
        for place in places:
            copy = Copy.of(place.value)
            asked = {
                "partition": f"{self._target}-{place.partition}",
                "value": place.value.decode(),
                "transaction": transaction,
                "source": f"{self._source}-{copy.partition}:{copy.offset}",
            }
            yield self._invoke(time_ms, "send", {}, "send", **asked)
            yield self._end(time_ms, "send", self._count, "ok", offset=place.offset)

    def _invoke(self, time_ms: float, kind: str, opened: dict[str, int], key: str, **asked: object) -> Event:
        self._count += 1
        opened[key] = self._count
        return self._event(time_ms, kind, self._count, "invoke", asked)

    def _end(self, time_ms: float, kind: str, operation: int, outcome: str, **told: object) -> Event:
        return self._event(time_ms, kind, operation, outcome, told)

    def _event(self, time_ms: float, kind: str, operation: int, event_type: str, rest: dict[str, object]) -> Event:
        head = {"time_ms": time_ms, "process": self.name, "operation": operation, "type": event_type, "kind": kind}
        return {**head, **rest}
