"""Starting flows, and starting them again, with queries that only say how they are."""

import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tailrace.base.limits import (
    PIPELINE_HEALTHY_S,
    PIPELINE_RESTART_WAIT_S_MAX,
    PIPELINE_RESTARTS_MAX,
    PIPELINE_RESTARTS_ONCE_MAX,
)
from tailrace.pipeline import flow, topic
from tailrace.spark.pipeline.culprit import SearchStopped
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.load import Pipeline
from tailrace.spark.pipeline.plan import FlowPlan, plan_flow
from tailrace.spark.pipeline.run import PipelineRun

LATE = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"

FENCED = """[STREAM_FAILED] Query [id = 1] terminated with exception: Writing job aborted.
Traceback (most recent call last):
  File "/lib/tailrace/spark/transaction_desk.py", line 1, in take
tailrace.spark.error.RetriableWriteError: a batch of one could not be decided: another producer has taken the id
"""
FENCED_CAUSE = "a batch of one could not be decided: another producer has taken the id"


class Query:
    """A query that takes some looks to find its sources, and may have failed."""

    def __init__(self, number: int, failure: str | None = None) -> None:
        self.id = self.runId = number
        self.failure = failure
        self.look_count = 0

    @property
    def isActive(self) -> bool:
        return self.failure is None

    @property
    def status(self) -> dict[str, Any]:
        self.look_count += 1
        messages = {1: "Initializing StreamExecution", 2: "Initializing sources"}
        message = messages.get(self.look_count, "Processing new data")
        return {"message": message, "isTriggerActive": False}

    def exception(self) -> Exception | None:
        return None if self.failure is None else RuntimeError(self.failure)

    def stop(self) -> None:
        self.failure = "stopped"


class Streams:
    """Where listeners would be told of progress."""

    def addListener(self, _listener: Any) -> None:
        pass

    def removeListener(self, _listener: Any) -> None:
        pass


class Conf:
    """The settings of a session that chooses how checkpoints are written."""

    def get(self, _name: str, _default: str) -> str:
        return "a.class.of.its.own"


class Session:
    streams = Streams()
    conf = Conf()


class Run(PipelineRun):
    """Flows whose queries, or the errors of starting them, are told in advance; time passes when the test says so."""

    def __init__(
        self,
        plans: list[FlowPlan],
        queries: list[Query | Exception],
        stopping: threading.Event | None = None,
        restarts_max: int | None = None,
    ) -> None:
        self.now_s = 100.0
        self.said: list[str] = []
        pipeline = Pipeline(Path("p.py"), (), ModuleType("tailrace_test_pipe"))
        super().__init__(
            Session(),  # type: ignore[arg-type]
            pipeline,
            plans,
            say=self.said.append,
            clock=lambda: self.now_s,
            stopping=stopping,
            restarts_max=restarts_max,
        )
        self.coming = queries
        self.started: list[tuple[str, list[int]]] = []

    def _start_flow(self, plan: FlowPlan, *, once: bool) -> Any:
        looks = [query.look_count for query in self._queries.values()]  # type: ignore[attr-defined]
        self.started.append((plan.name, looks))
        coming = self.coming.pop(0)
        if isinstance(coming, Exception):
            raise coming
        return coming

    def _await_reports(self) -> None:
        """None come."""

    def after(self, seconds: float) -> bool:
        """What a look finds when so much time has passed."""
        self.now_s += seconds
        return self.check()

    @property
    def started_names(self) -> list[str]:
        return [name for name, _ in self.started]


def plans(*names: str) -> list[FlowPlan]:
    found = []
    for name in names:

        def function(rows: Any) -> Any:
            return rows

        function.__name__ = name
        declared = flow(source=topic("a"), sink=topic("b"))(function)
        found.append(plan_flow(declared, {"bootstrap.servers": "h:1"}, Path("/c"), Path("/o")))
    return found


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.spark.pipeline.run._send_by_value", lambda pipeline: None)


def test_a_flow_starts_when_those_before_it_have_their_sources() -> None:
    run = Run(plans("one", "two"), [Query(1), Query(2)])
    run.start()
    assert run.started == [("one", []), ("two", [3])]
    assert run.check()


def test_flows_start_in_turn_when_the_one_before_has_finished_a_batch() -> None:
    run = Run(plans("one", "two", "three"), [Query(1), Query(2), Query(3)])
    run.start(in_turn=True)
    assert run.check()
    run._take_progress("one", {"numInputRows": 0, "runId": "1", "durationMs": {"triggerExecution": 1}})  # no batch
    assert (run.check(), run.started_names, run.is_started) == (True, ["one"], False)
    run._take_progress("one", {"numInputRows": 1, "runId": "1", "durationMs": {"addBatch": 1}})
    assert (run.check(may_start=False), run.started_names) == (True, ["one"])
    assert (run.check(), run.started_names) == (True, ["one", "two"])
    assert run.after(29)
    assert run.started_names == ["one", "two"]
    assert run.after(2)  # a first batch may take long, and the others do not wait for ever
    assert (run.started_names, run.is_started) == (["one", "two", "three"], True)


def test_a_flow_that_waits_for_its_turn_stops_with_the_others() -> None:
    run = Run(plans("one", "two"), [Query(1)])
    run.start(in_turn=True)
    run.stop()
    assert [tally.state for tally in run.snapshot()] == ["stopped", "stopped"]


def test_a_flow_whose_python_was_late_is_started_again() -> None:
    """A busy machine made the main job fail before: five Python processes started at once, and one took too long."""
    run = Run(plans("one", "two"), [Query(1, LATE), Query(2), Query(3)])
    run.start()
    assert run.check()
    assert run.started_names == ["one", "two"]
    assert run.after(0.9)
    assert run.started_names == ["one", "two"]
    assert run.after(0.2)
    assert run.started_names == ["one", "two", "one"]
    assert run.check()


def test_a_fenced_flow_is_started_again_and_the_others_run_on() -> None:
    """The main job ended in five of eight runs: a worker of the same flow had taken the transactional id."""
    other = Query(2)
    run = Run(plans("one", "two"), [Query(1, FENCED), other, Query(3)])
    run.start()
    assert run.check()
    assert run.said == [f"flow one failed and restarts in 1 s: {FENCED_CAUSE}"]
    tally = run.tallies["one"]
    assert (tally.state, tally.shown_state(run.now_s)) == ("restarting", f"restarting in 1 s: {FENCED_CAUSE}")
    assert run.after(1)
    assert (tally.state, other.failure) == ("starting", None)
    run.now_s += 2
    run._take_progress("one", {"numInputRows": 1, "runId": "1"})  # the last report of the run that failed
    assert (tally.state, run.check()) == ("starting", True)
    run._take_progress("one", {"numInputRows": 1, "runId": "3"})
    assert run.check()
    assert run.check()
    assert run.said[1:] == ["flow one recovered after 3 s"]
    assert (tally.state, tally.cause) == ("running", "")


def test_a_flow_that_finds_nothing_to_do_is_back_too() -> None:
    run = Run(plans("one"), [Query(1, FENCED), Query(2)])
    run.start()
    run.check()
    run._take_work("1")  # the last report of the run that failed, which came late
    assert run.after(1)
    run._take_work("1")
    assert run.check()
    assert len(run.said) == 1
    run._take_work("2")
    run.check()
    assert run.said[1:] == ["flow one recovered after 1 s"]
    assert run.tallies["one"].state == "running"


def test_a_flow_that_waits_is_not_started_when_the_pipeline_is_stopped() -> None:
    run = Run(plans("one"), [Query(1, FENCED), Query(2)])
    run.start()
    run.check()
    run.now_s += 60
    assert run.check(may_start=False)
    assert run.started_names == ["one"]
    with pytest.raises(FlowError, match=r"flow one: the duration ended before .* restarted: .*has taken the id"):
        run.require_running()


def test_a_flow_that_cannot_be_started_for_now_waits() -> None:
    """A sink asks for its topic when its query starts, which fails while the broker restarts."""
    run = Run(plans("one", "two"), [RuntimeError(FENCED), Query(2), Query(3)])
    run.start()
    assert run.after(1)
    assert run.started_names == ["one", "two", "one"]


def test_a_flow_that_always_fails_ends_the_pipeline() -> None:
    other = Query(2)
    run = Run(plans("one", "two"), [Query(1, LATE), other, *(Query(number, LATE) for number in range(3, 50))])
    run.start()
    for _ in range(PIPELINE_RESTARTS_MAX):
        assert run.check()
        assert run.after(PIPELINE_RESTART_WAIT_S_MAX)
    cause = rf"flow one: the flow failed after {PIPELINE_RESTARTS_MAX} restarts in a row: .*failed to connect back"
    with pytest.raises(FlowError, match=cause):
        run.check()
    assert run.started_names == ["one", "two"] + ["one"] * PIPELINE_RESTARTS_MAX
    assert (other.failure, run.tallies["one"].state) == ("stopped", "failed")


def fail_after_working(run: Run, times: int) -> None:
    """Have a flow fail time and again, each time after it has worked for a while."""
    run.start(once=run._once)
    for _ in range(times):
        run.now_s += PIPELINE_HEALTHY_S
        run._take_progress("one", {"runId": str(run._queries["one"].runId)})
        assert run.check()
        assert run.after(PIPELINE_RESTART_WAIT_S_MAX)


def test_restarts_are_counted_anew_after_a_flow_has_worked_for_a_while() -> None:
    run = Run(plans("one"), [Query(number, FENCED) for number in range(50)])
    fail_after_working(run, PIPELINE_RESTARTS_MAX + 3)
    assert {line for line in run.said if "failed" in line} == {f"flow one failed and restarts in 1 s: {FENCED_CAUSE}"}


def test_a_flow_that_is_never_restarted_ends_with_its_failure() -> None:
    run = Run(plans("one"), [Query(1, FENCED)], restarts_max=0)
    run.start()
    with pytest.raises(FlowError) as caught:
        run.check()
    assert str(caught.value) == f"flow one: {FENCED_CAUSE}"


def test_a_pipeline_that_shall_end_is_not_restarted_for_ever() -> None:
    run = Run(plans("one"), [Query(number, FENCED) for number in range(20)])
    run._once = True
    with pytest.raises(FlowError, match="restarts in a row"):
        fail_after_working(run, PIPELINE_RESTARTS_ONCE_MAX + 1)


def test_a_flow_that_waits_can_be_stopped() -> None:
    run = Run(plans("one", "two"), [Query(1, FENCED), Query(2)])
    run.start()
    run.check()
    run.stop()
    assert [tally.state for tally in run.snapshot()] == ["stopped", "stopped"]


def test_another_failure_ends_all_at_once() -> None:
    good = Query(2)
    run = Run(plans("one", "two"), [Query(1, "no space left"), good])
    run.start()
    with pytest.raises(FlowError, match=r"flow one: .*no space left"):
        run.check()
    assert (good.failure, len(run.started), run.said) == ("stopped", 2, [])


def test_a_search_that_is_stopped_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search went on for up to 20 s after Ctrl-C, and the flow then counted as failed or was started again."""

    def stop(_spark: Any, _plan: Any, _file: Any, stopping: threading.Event) -> Any:
        assert stopping is signalled
        signalled.set()
        raise SearchStopped

    signalled = threading.Event()
    monkeypatch.setattr("tailrace.spark.pipeline.run.leave_out_culprits", stop)
    run = Run(plans("one", "two"), [Query(1, "7 is odd"), Query(2)], signalled)
    run.start()
    assert run.check()
    assert run.check(may_start=False)
    assert run.said == ["flow one: the search for the records that fail was stopped: RuntimeError: 7 is odd"]
    run.stop()
    assert [tally.state for tally in run.snapshot()] == ["stopped", "stopped"]
    assert run.started_names == ["one", "two"]
