"""Histories by hand: one line of Python for an operation."""

from typing import Any, Self

from tailrace.sim.check import check
from tailrace.sim.history import History, Recorder

P = "views-0"


class Story:
    """Operations that begin and end at once, unless they are begun by `recorder.invoke`."""

    def __init__(self) -> None:
        self.recorder = Recorder(lambda: float(len(self.recorder.events)))

    def send(self, value: object, offset: int, process: str = "producer", **asked: Any) -> Self:
        self.recorder.invoke(process, "send", **{"partition": P, "value": value, **asked}).ok(offset=offset)
        return self

    def refused(self, value: object) -> Self:
        self.recorder.invoke("producer", "send", partition=P, value=value).fail("refused")
        return self

    def doubtful(self, value: object, process: str = "producer") -> Self:
        self.recorder.invoke(process, "send", partition=P, value=value).unknown("time-out")
        return self

    def poll(self, *records: Any, process: str = "consumer") -> Self:
        """Records as (offset, value) or (offset, value, leader epoch)."""
        self.recorder.invoke(process, "poll").ok(records=[[P, *record] for record in records])
        return self

    def assign(self, process: str = "consumer", **asked: Any) -> Self:
        self.recorder.invoke(process, "assign", partitions=[P], **asked).ok()
        return self

    def commit(self, offset: int, process: str = "member") -> Self:
        self.recorder.invoke(process, "commit", group="readers", offsets={P: offset}).ok()
        return self

    def applied(self, offset: int) -> Self:
        """The commit of an offset, as a coordinator applies it."""
        self.recorder.invoke("broker-1", "applied", group="readers", partition=P, offset=offset).ok()
        return self

    def commit_lost(self, offset: int) -> Self:
        self.recorder.invoke("member", "commit", group="readers", offsets={P: offset}).unknown("time-out")
        return self

    def committed(self, offset: int) -> Self:
        self.recorder.invoke("member", "committed", group="readers").ok(offsets={P: offset})
        return self

    def delete(self, offset: int, told: int | None = None) -> Self:
        """The deletion of all records below an offset."""
        told = offset if told is None else told
        self.recorder.invoke("administrator", "delete-records", partition=P, offset=offset).ok(low_watermark=told)
        return self

    def delete_lost(self, offset: int) -> Self:
        self.recorder.invoke("administrator", "delete-records", partition=P, offset=offset).unknown("time-out")
        return self

    def retention(self, end: int) -> Self:
        """A short retention that was restored when the log ended at an offset."""
        self.recorder.invoke("administrator", "retention", partition=P).ok(offset=end)
        return self

    def log_start(self, offset: int) -> Self:
        self.recorder.invoke("administrator", "log-start", partition=P).ok(offset=offset)
        return self

    def alter(self, value: str) -> Self:
        self.recorder.invoke("administrator", "alter", topic="t", configs={"c": value}).ok()
        return self

    def describe(self, value: str) -> Self:
        self.recorder.invoke("last", "describe", topic="t", broker=1).ok(configs={"c": value})
        return self

    def drain(self) -> Self:
        self.recorder.invoke("last", "drain", partitions=[P]).ok()
        return self

    def history(self) -> History:
        return self.recorder.history()

    def anomalies(self) -> list[str]:
        return [finding.anomaly for finding in check(self.history())]
