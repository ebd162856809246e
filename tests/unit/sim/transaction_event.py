"""Histories of transactions by hand: one line of Python for an operation."""

from collections.abc import Callable
from typing import Any, Self

from tests.unit.sim.event import Story

INPUT, OTHER, GROUP = "input-0", "orders-1", "copiers"


class TransactionStory(Story):
    """What transactional producers did. A transaction's name begins with the process of its producer, as in `a1`."""

    def init(self, process: str, transactional_id: str = "copier") -> Self:
        self.recorder.invoke(process, "init", transactional_id=transactional_id).ok()
        return self

    def begin(self, name: str, transactional_id: str = "copier") -> Self:
        self.recorder.invoke(name[0], "begin", transaction=name, transactional_id=transactional_id).ok()
        return self

    def put(self, name: str, value: str, offset: int, **asked: Any) -> Self:
        """A send within a transaction, which is acknowledged."""
        return self.send(value, offset, name[0], transaction=name, **asked)

    def offsets(self, name: str, offset: int) -> Self:
        self.recorder.invoke(name[0], "offsets", transaction=name, group=GROUP, offsets={INPUT: offset}).ok()
        return self

    def end(self, name: str, outcome: str = "ok", *, commit: bool = True, process: str | None = None) -> Self:
        end = self.recorder.invoke(process or name[0], "end", transaction=name, commit=commit)
        outcomes: dict[str, Callable[[], None]] = {
            "ok": end.ok,
            "fail": lambda: end.fail("refused"),
            "info": lambda: end.unknown("time-out"),
        }
        outcomes[outcome]()
        return self

    def abort(self, name: str, outcome: str = "ok") -> Self:
        return self.end(name, outcome, commit=False)

    def look(self, offset: int, process: str = "looker") -> Self:
        self.recorder.invoke(process, "committed", group=GROUP).ok(offsets={INPUT: offset})
        return self

    def read(self, *records: Any, process: str = "reader", **asked: Any) -> Self:
        """Records as (partition, offset, value)."""
        self.recorder.invoke(process, "poll", **asked).ok(records=[list(record) for record in records])
        return self

    def drain_all(self) -> Self:
        self.recorder.invoke("last", "drain", partitions=["views-0", INPUT, OTHER]).ok()
        return self

    def stuck(self, partition: str) -> Self:
        self.recorder.invoke("last", "drain", partitions=["views-0", INPUT, OTHER]).ok(stuck=[partition])
        return self

    def given(self, *values: str) -> Self:
        """Records in the input."""
        for offset, value in enumerate(values):
            self.send(value, offset, "giver", partition=INPUT)
        return self.read(*((INPUT, offset, value) for offset, value in enumerate(values)))
