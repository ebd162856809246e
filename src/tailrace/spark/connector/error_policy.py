"""What a flow does with records that it cannot decode, rows that a sink refuses, and rows that expectations reject."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tailrace.base.topic_name import topic_name_problem
from tailrace.spark.error import PipelineError

_FORMS = 'errors= is "stop", "skip", or a mapping such as {"to": "orders_errors"}'


class OnError(StrEnum):
    """The choices."""

    STOP = "stop"
    SKIP = "skip"
    SEND = "to"


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """The choice of a flow; with `SEND`, the dead-letter topic."""

    action: OnError = OnError.STOP
    topic: str | None = None

    def __str__(self) -> str:
        return f"to topic {self.topic}" if self.topic is not None else self.action.value


STOP = ErrorPolicy()


def check_errors(given: Any) -> ErrorPolicy:
    """Return the policy of a declaration; raises `PipelineError` if it is not one."""
    if given is None:
        return STOP
    if isinstance(given, Mapping):
        if list(given) != [OnError.SEND.value]:
            raise PipelineError(f"{_FORMS}; the key is to, not {', '.join(map(str, given)) or 'missing'}")
        topic = given[OnError.SEND.value]
        problem = topic_name_problem(topic) if isinstance(topic, str) else "it is not a text"
        if problem is not None:
            raise PipelineError(f"errors=: {topic!r} is not the name of a dead-letter topic: {problem}")
        return ErrorPolicy(OnError.SEND, topic)
    if given not in (OnError.STOP, OnError.SKIP):
        raise PipelineError(f"{_FORMS}, not {given!r}")
    return ErrorPolicy(OnError(given))
