"""The whole table: every case, and what a broker answers it to every user."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.authorization import cluster_case, group_case, topic_case, transaction_case
from tests.authorization.case import Case
from tests.authorization.grant import COMMON
from tests.authorization.outcome import outcome
from tests.authorization.plain import request
from tests.authorization.wire import Closed
from tests.authorization.world import World

CASES = [*topic_case.CASES, *group_case.CASES, *transaction_case.CASES, *cluster_case.CASES]
GRANTS = list(dict.fromkeys([*COMMON, *(granted for case in CASES for granted in case.also)]))
RECORDED = Path(__file__).parent / "kafka_cells.json"
CLOSED, SILENCE, OTHERWISE = "the connection is closed", "no reply", "otherwise"

Cells = dict[str, str]
"""What a case is answered, for each set of rights."""


def cells(world: World, case: Case) -> Cells:
    """Ask a case with all of its sets of rights."""
    return {granted: _ask(world, case, world.users[granted]) for granted in dict.fromkeys([*COMMON, *case.also])}


def _ask(world: World, case: Case, user: str) -> str:
    wire = world.wire(user)
    if not case.has_reply:
        return _send(world, case, user)
    try:
        response = wire.ask(request(case.api, case.fields, world.ids), case.version)
    except Closed:
        world.hang_up(user)
        return CLOSED
    found = outcome(response, case.version, {topic_id: name for name, topic_id in world.ids.items()})
    if case.undo is not None:
        case.undo(world, wire, response)
    return found.replace(user, "self")


def _send(world: World, case: Case, user: str) -> str:
    """Send a request without a reply, and another one after it to see whether the connection is still there."""
    wire = world.wire(user)
    wire.send(request(case.api, case.fields, world.ids), case.version)
    try:
        wire.ask(request("Metadata", {"topics": []}, {}), 4)
    except Closed:
        world.hang_up(user)
        return CLOSED
    return SILENCE


def folded(found: Cells) -> dict[str, str | list[str]]:
    """Return the cells of a case by outcome; what a user without rights is answered goes without saying."""
    usual = found[COMMON[0]]
    by_outcome: dict[str, str | list[str]] = {OTHERWISE: usual}
    for granted, text in found.items():
        if text != usual:
            names = by_outcome.setdefault(text, [])
            assert isinstance(names, list)
            names.append(granted)
    return by_outcome


def unfolded(case: Case, recorded: Mapping[str, str | list[str]]) -> Cells:
    """Return the cells of a case as they were before `folded`."""
    found = dict.fromkeys([*COMMON, *case.also], str(recorded[OTHERWISE]))
    for text, granted in recorded.items():
        if text != OTHERWISE:
            found |= dict.fromkeys(granted, text)
    return found


def recorded_cells() -> dict[str, Cells]:
    """Return the cells of Apache Kafka, by the title of their case."""
    recorded = json.loads(RECORDED.read_text())
    return {case.title: unfolded(case, recorded[case.title]) for case in CASES}
