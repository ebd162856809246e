"""What the Connect service and the Spark application of a connector tell each other, in lines of JSON."""

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Job:
    """What an application runs. It reaches the application through a pipe, because it can contain passwords."""

    connector: str
    file: str
    """The pipeline file."""
    checkpoints: str
    client: dict[str, str]
    master: str = "local[*]"
    spark: dict[str, str] = field(default_factory=dict)
    topics: list[dict[str, Any]] = field(default_factory=list)
    """Topics to create unless they exist, as arguments of `NewTopic`."""
    topics_read: list[str] = field(default_factory=list)
    """Topics that must exist before it starts."""
    group: str = ""
    """The consumer group that shows its progress."""

    def to_line(self) -> str:
        """Return the job as one line."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def of_line(cls, line: str) -> Self:
        """Return the job of a line."""
        return cls(**json.loads(line))


class Event(StrEnum):
    """What an application reports."""

    RUNNING = "running"
    RESTARTING = "restarting"
    LOST = "lost"
    """It ends for a reason that can pass."""
    FAILED = "failed"
    """It ends, and would fail again."""


@dataclass(frozen=True, slots=True)
class Report:
    """One report of an application."""

    event: Event
    cause: str = ""
    rows: int = 0
    """How many rows it has read since its start."""

    def to_line(self) -> str:
        """Return the report as one line."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def of_line(cls, line: str) -> Self:
        """Return the report of a line; raises ValueError if it is none."""
        content = json.loads(line)
        if not isinstance(content, dict):
            raise ValueError(f"{line!r} is not a report")
        return cls(Event(content["event"]), str(content["cause"]), int(content["rows"]))
