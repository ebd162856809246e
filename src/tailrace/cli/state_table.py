"""The state tables of the machines, as a page."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from tailrace.machines.group.classic.state import TRANSITIONS as CLASSIC_GROUP
from tailrace.machines.transaction.state import TRANSITIONS as TRANSACTION

S = TypeVar("S")


def render() -> str:
    """Render the page with every table."""
    lines = [
        "<!-- Generated from the state modules of the machines. Do not edit: run make docs -->",
        "",
        "# States",
        "",
        "The states of the machines that coordinate clients, and what leads from one state to the next. A transition",
        "that is not listed is a bug, and fails an invariant. The theory of operation is at the top of each module.",
        *_section("Classic group", "group/classic", CLASSIC_GROUP, lambda state: state.value),
        "",
        "Dead means that a tombstone was written: the group was deleted, or it uses the consumer protocol now.",
        *_section("Transactional id", "transaction", TRANSACTION, lambda state: state.title),
        "",
        "Dead means that a tombstone was written.",
    ]
    return "\n".join(lines) + "\n"


def _section(title: str, folder: str, transitions: Mapping[S, Mapping[S, str]], name: Callable[[S], str]) -> list[str]:
    return [
        "",
        f"## {title}",
        "",
        f"From `machines/{folder}/state.py`.",
        "",
        "| from | to | because |",
        "| --- | --- | --- |",
        *(
            f"| {name(before)} | {name(after)} | {reason} |"
            for before, following in transitions.items()
            for after, reason in following.items()
        ),
    ]
