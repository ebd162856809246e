"""A few kills of each chain of pipelines, and the parts of such runs without Spark; `make pipeline-kill` has fifty."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.faults.pipeline_kill_loop import CHAINS, MOMENTS, open_chain
from tests.faults.pipeline_kill_storm import Storm, create_tables, read_rows
from tests.faults.spark_kill_plan import Moment, plan_kills
from tests.postgres_server import started_server
from tests.spark.conftest import require_spark

pytestmark = [pytest.mark.exact, pytest.mark.slow]

KILL_COUNT = 3
WAIT_S = 60.0
TARGETS = ("driver", "database", "worker", "broker", "executor")


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS)
def test_a_pipeline_writes_exactly_once_while_it_is_killed(chain: str, tmp_path: Path) -> None:
    require_spark()
    seed = random.randrange(2**32)
    with open_chain(chain, tmp_path, seed=seed) as loop:
        found = loop.run(loop.plan(seed, KILL_COUNT, is_ablated=False), math.inf, print)
    assert found
    assert all(each.is_equal for each in found), f"seed {seed}, {found}"


def test_the_first_kills_of_a_plan_meet_a_driver_that_has_committed() -> None:
    """So a short run without the safeguard differs for sure."""
    for seed in range(20):
        kills = plan_kills(seed, KILL_COUNT, TARGETS, ("squares",), MOMENTS)
        assert ("driver", Moment.COMMITTED) in {(kill.target, kill.moment) for kill in kills}
    found = {(kill.target, kill.moment) for kill in plan_kills(1, 50, TARGETS, ("squares",), MOMENTS)}
    assert found == {(target, moment) for target in TARGETS for moment in MOMENTS}


def test_the_notes_of_a_storm_lead_to_its_table_when_the_database_is_killed() -> None:
    with started_server() as server:
        create_tables(server.url)
        storm = Storm(server.url, 1, lambda: True)
        storm.start()
        try:
            for least in (40, 80):
                wait_for_changes(storm, least)
                server.kill()
                server.start()
            wait_for_changes(storm, 120)
            assert storm.end() >= 120
            notes = read_rows(server.url, "audit", "op, id, balance, change")
            rows = read_rows(server.url, "accounts", "id, balance, change")
        finally:
            storm.close()
    kinds = Counter(note.split()[0] for note in notes)
    assert set(kinds) == {"r", "c", "u", "d"}
    assert set(notes.values()) == {1}
    assert rows == replayed(notes)


def wait_for_changes(storm: Storm, least: int) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while storm.count < least:
        storm.check()
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def replayed(notes: Counter[str]) -> Counter[str]:
    """Return the newest version of each row, unless that version was deleted."""
    deleted = {note.removeprefix("d ") for note in notes if note.startswith("d ")}
    versions = sorted((note.split()[1:] for note in notes if not note.startswith("d ")), key=lambda row: int(row[2]))
    newest = {row[0]: " ".join(row) for row in versions}
    return Counter(row for row in newest.values() if row not in deleted)
