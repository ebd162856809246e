"""The cells in which a broker differs from Apache Kafka on purpose. `docs/AUTHORIZATION.md` has the reasons too."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.authorization.case import Case
from tests.authorization.table import Cells


class Difference(NamedTuple):
    """Some cases, what is different in them and why, and the change of what Apache Kafka answers."""

    titles: tuple[str, ...]
    reason: str
    change: Callable[[str], str]


def _created_at_once(text: str) -> str:
    """Change a list of topics; its elements are sorted."""
    absent, created = "UNKNOWN_TOPIC_OR_PARTITION absent", "ok absent [ok 0]"
    listed, end, rest = text[1:].rpartition("]")
    return "[" + ", ".join(sorted(listed.replace(absent, created).split(", "))) + end + rest


def _unsupported(text: str) -> str:
    return text.replace("[ok ", "[INVALID_REQUEST ").replace(" configs]", "]")


DIFFERENCES = (
    Difference(
        (
            "Metadata v1: by name, with creation",
            "Metadata v4: by name, with creation",
            "Metadata v9: by name, with creation and operations",
        ),
        "A topic that is created on first use is in the reply; Kafka tells that it does not exist, and the client asks "
        "again.",
        _created_at_once,
    ),
    Difference(
        ("CreateTopics v7: with configs",),
        "A request that only validates gets no topic id; Kafka returns an id that no topic has.",
        lambda text: text.replace("absent #? ok", "absent ok"),
    ),
    Difference(
        (
            "DescribeConfigs v4: client metrics",
            "AlterConfigs v2: client metrics",
            "IncrementalAlterConfigs v1: client metrics",
            "DescribeConfigs v4: broker loggers",
            "IncrementalAlterConfigs v1: broker loggers",
        ),
        "Client metrics and broker loggers have no configs here. A client with the right to use them is told so.",
        _unsupported,
    ),
)


def expected(case: Case, recorded: Cells) -> Cells:
    """Return the cells of a case, which Apache Kafka has given, with the differences."""
    found = recorded
    for difference in DIFFERENCES:
        if case.title in difference.titles:
            found = {granted: difference.change(text) for granted, text in found.items()}
    return found
