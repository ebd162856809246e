"""The kills of Spark queries without Spark: their plan, the places where they strike, and what they must tell apart."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from tests.faults.spark_kill_desk import HaltingDesk, UndecidedDesk
from tests.faults.spark_kill_evidence import Commits, Evidence
from tests.faults.spark_kill_flow import FIRST_SECOND, ROUND, Windows, make_flows
from tests.faults.spark_kill_halt import Halt
from tests.faults.spark_kill_plan import MOMENTS, Kill, Moment, plan_kills

import tailrace
from tailrace.spark.batch_end import commit_batch
from tailrace.spark.client_setting import parse_client_settings
from tailrace.spark.decision import Offer
from tailrace.spark.error import WriteError
from tailrace.spark.option import Delivery, SinkOptions
from tailrace.spark.task_place import TaskPlace
from tailrace.spark.task_writer import write_prepared
from tailrace.spark.transaction_desk import TransactionDesk
from tailrace.spark.transaction_name import sink_name
from tailrace.testing import Broker

FLOWS = ("out", "other")
TARGETS = ("driver", "executor", "worker", "broker")
WAIT_S = 60.0


def test_a_plan_has_every_target_at_every_moment() -> None:
    kills = plan_kills(7, 50, TARGETS, FLOWS)
    assert kills == plan_kills(7, 50, TARGETS, FLOWS)
    assert kills != plan_kills(8, 50, TARGETS, FLOWS)
    found = Counter((kill.target, kill.moment) for kill in kills)
    assert set(found) == {(target, moment) for target in TARGETS for moment in MOMENTS}
    assert all(total >= 10 for total in Counter(kill.target for kill in kills).values())


def test_a_plan_has_the_same_kills_for_any_number_of_flows() -> None:
    several, one = plan_kills(7, 50, TARGETS, FLOWS), plan_kills(7, 50, TARGETS, FLOWS[:1])
    assert {kill.flow for kill in several} == set(FLOWS)
    assert [kill._replace(flow=FLOWS[0]) for kill in several] == one


def test_one_process_of_a_flow_stands_still_until_it_is_released(tmp_path: Path) -> None:
    halt = Halt(tmp_path)
    kill = first_between()
    halt.pass_by(Moment.BETWEEN, "out")
    halt.ask(kill)
    halt.pass_by(Moment.UNDECIDED, "out")
    halt.pass_by(Moment.BETWEEN, "other")
    assert halt.reached_by(kill) is None
    driver = threading.Thread(target=halt.pass_by, args=(Moment.BETWEEN, "out"))
    driver.start()
    _wait_until_reached(halt, kill)
    assert halt.reached_by(kill) == os.getpid()
    halt.pass_by(Moment.BETWEEN, "out")  # the next driver does not stand still
    assert driver.is_alive()
    halt.release(kill)
    driver.join(WAIT_S)
    assert not driver.is_alive()


def test_flows_differ_and_have_whole_windows() -> None:
    flows = make_flows(9)
    assert len({flow.name for flow in flows}) == len({tuple(flow.truth(2 * ROUND)) for flow in flows}) == 9
    assert [flow.is_in_foreach_batch for flow in flows[:4]] == [False, False, True, True]
    for flow in flows:
        rows = list(flow.truth(2 * ROUND))
        assert len(rows) == len(set(rows))
        if isinstance(flow, Windows):
            assert sum(int(row.split()[2]) for row in rows) == 2 * ROUND
            assert FIRST_SECOND % flow.window_s == 0


def test_evidence_counts_the_workers_that_take_turns(tmp_path: Path) -> None:
    evidence = Evidence(tmp_path)
    lines = [["out", 1, 10], ["out", 1, 11], ["other", 1, 12], ["out", 1, 11], ["out", 2, 20]]
    (tmp_path / "commits.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '["out", 2')
    assert evidence.commits("out") == Commits(batch_count=4, worker_count=3, driver_count=2, turn_count=1)
    evidence.note_failure("out", "Traceback\n  File\ntailrace.spark.error.WriteError: a batch of q/out\n\tat java")
    assert evidence.failures() == {"out": 1}
    assert evidence.reasons() == {"tailrace.spark.error.WriteError: a batch of q/out": 1}


class Query:
    """A batch of two rows, each written by a task of its own."""

    def __init__(self, broker: Broker, halt: Halt, desk_type: type[HaltingDesk]) -> None:
        broker.create_topic("out", 1)
        self._servers = broker.bootstrap_servers
        client = parse_client_settings({"kafka.bootstrap.servers": self._servers})
        self._options = SinkOptions(client, "out", Delivery.EXACTLY_ONCE)
        self._halt = halt
        self._desk_type = desk_type

    def run_batch(self, run_id: str) -> None:
        """Write and commit it, or fail as a driver does that was succeeded."""
        written = [
            write_prepared(self._options, TaskPlace("q", run_id, 0, 0), iter([pa.record_batch({"value": [value]})]))[1]
            for value in (b"first", b"second")
        ]
        sink = sink_name("q", "out")
        desk = TransactionDesk(self._options.client, sink)
        offer = Offer(sink, run_id, 0, tuple(each for each in written if each is not None))
        with suppress(WriteError):
            commit_batch(self._desk_type(desk, self._halt, "out"), offer)
        desk.close()

    def seen(self) -> list[bytes]:
        table = tailrace.read_table(self._servers, "out", columns=["value"], isolation_level="read_committed")
        return sorted(table.column("value").to_pylist())


@pytest.mark.parametrize(
    ("desk_type", "rows"),
    [(HaltingDesk, [b"first", b"second"]), (UndecidedDesk, [b"first", b"first", b"second"])],
)
def test_a_driver_that_dies_between_two_commits_is_told_from_one_without_decisions(
    tmp_path: Path, desk_type: type[HaltingDesk], rows: list[bytes]
) -> None:
    """It stands still while its successor runs the batch again, and changes nothing when it goes on."""
    halt = Halt(tmp_path)
    kill = first_between()
    with Broker() as broker:
        query = Query(broker, halt, desk_type)
        halt.ask(kill)
        driver = threading.Thread(target=query.run_batch, args=("run 1",))
        driver.start()
        _wait_until_reached(halt, kill)
        query.run_batch("run 2")
        assert query.seen() == rows
        halt.release(kill)
        driver.join(WAIT_S)
        assert query.seen() == rows


def first_between() -> Kill:
    return next(kill for kill in plan_kills(1, 12, TARGETS, FLOWS[:1]) if kill.moment is Moment.BETWEEN)


def _wait_until_reached(halt: Halt, kill: Kill) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while halt.reached_by(kill) is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
