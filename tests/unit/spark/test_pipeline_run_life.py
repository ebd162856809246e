"""Starting flows, and starting them again, with queries that only say how they are."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from runnel.base.limits import PIPELINE_RESTARTS_MAX
from runnel.pipeline import flow, topic
from runnel.spark.pipeline.error import FlowError
from runnel.spark.pipeline.load import Pipeline
from runnel.spark.pipeline.plan import FlowPlan, plan_flow
from runnel.spark.pipeline.run import PipelineRun

LATE = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"


class Query:
    """A query that takes some looks to find its sources, and may have failed."""

    def __init__(self, number: int, failure: str | None = None) -> None:
        self.id = number
        self.failure = failure
        self.look_count = 0

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return self.failure is None

    @property
    def status(self) -> dict[str, Any]:
        self.look_count += 1
        message = "Initializing sources" if self.look_count < 3 else "Processing new data"
        return {"message": message, "isTriggerActive": False}

    def exception(self) -> Exception | None:
        return None if self.failure is None else RuntimeError(self.failure)

    def stop(self) -> None:
        self.failure = "stopped"


class Streams:
    """Where listeners would be told of progress."""

    def addListener(self, _listener: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def removeListener(self, _listener: Any) -> None:  # noqa: N802 - Spark's name
        pass


class Session:
    streams = Streams()


class Run(PipelineRun):
    """Flows whose queries are told in advance."""

    def __init__(self, plans: list[FlowPlan], queries: list[Query]) -> None:
        super().__init__(Session(), Pipeline(Path("p.py"), (), ModuleType("runnel_test_pipe")), plans)  # type: ignore[arg-type]
        self.coming = queries
        self.started: list[tuple[str, list[int]]] = []

    def _start_flow(self, plan: FlowPlan, *, once: bool) -> Any:
        looks = [query.look_count for query in self._queries.values()]  # type: ignore[attr-defined]
        self.started.append((plan.name, looks))
        return self.coming.pop(0)

    def _await_reports(self) -> None:
        """None come."""


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
    monkeypatch.setattr("runnel.spark.pipeline.run._send_by_value", lambda pipeline: None)


def test_a_flow_starts_when_those_before_it_have_their_sources() -> None:
    run = Run(plans("one", "two"), [Query(1), Query(2)])
    run.start()
    assert run.started == [("one", []), ("two", [3])]
    assert run.check()


def test_a_flow_whose_python_was_late_is_started_again() -> None:
    """A busy machine made the main job fail before: five Python processes started at once, and one took too long."""
    run = Run(plans("one", "two"), [Query(1, LATE), Query(2), Query(3)])
    run.start()
    assert run.check()
    assert [name for name, _ in run.started] == ["one", "two", "one"]
    assert run.check()


def test_a_python_that_is_always_late_is_an_error() -> None:
    run = Run(plans("one"), [Query(number, LATE) for number in range(10)])
    run.start()
    for _ in range(PIPELINE_RESTARTS_MAX):
        assert run.check()
    with pytest.raises(FlowError, match=r"flow one: .*Python worker failed to connect back"):
        run.check()
    assert len(run.started) == 1 + PIPELINE_RESTARTS_MAX


def test_another_failure_ends_all_at_once() -> None:
    good = Query(2)
    run = Run(plans("one", "two"), [Query(1, "no space left"), good])
    run.start()
    with pytest.raises(FlowError, match=r"flow one: .*no space left"):
        run.check()
    assert (good.failure, len(run.started)) == ("stopped", 2)
