"""The runs of several pipeline files in one Spark application.

Each file has a session of its own, with its own queries, and its own checkpoints. A file that fails for good stops
alone; the error is reported when it happens, and again when all have ended.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from tailrace.spark.error import PipelineError
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.flow import sole_place
from tailrace.spark.pipeline.plan import FlowPlan
from tailrace.spark.pipeline.tally import FlowTally


class Running(Protocol):
    """The run of one file; see `PipelineRun`."""

    def start(self, *, once: bool = False) -> None: ...
    def check(self, *, may_start: bool = True) -> bool: ...
    def require_running(self) -> None: ...
    def stop(self) -> None: ...
    def snapshot(self) -> list[FlowTally]: ...


class ManyRuns:
    """The runs of files, by their names, as one."""

    def __init__(self, runs: Mapping[str, Running], say: Callable[[str], None]) -> None:
        self._runs = dict(runs)
        self._say = say
        self._failed: set[str] = set()

    def start(self, *, once: bool = False) -> None:
        """Start the flows of all files."""
        for name, run in self._runs.items():
            try:
                run.start(once=once)
            except FlowError as error:
                self._fail(name, error)

    def check(self, *, may_start: bool = True) -> bool:
        """Return whether any flow is running or will be."""
        going_on = [self._check(name, may_start=may_start) for name in self._runs if name not in self._failed]
        return any(going_on)

    def _check(self, name: str, *, may_start: bool) -> bool:
        try:
            return self._runs[name].check(may_start=may_start)
        except FlowError as error:
            self._fail(name, error)
            return False

    def require_running(self) -> None:
        """Raise `PipelineError` if a file has failed, or a flow is waiting for its restart."""
        for name, run in self._runs.items():
            if name not in self._failed:
                try:
                    run.require_running()
                except FlowError as error:
                    self._fail(name, error)

    def require_success(self) -> None:
        """Raise `PipelineError` if a file has failed."""
        if self._failed:
            names = [name for name in self._runs if name in self._failed]
            raise PipelineError(f"{len(names)} of {len(self._runs)} files failed: {', '.join(names)}")

    def stop(self) -> None:
        """Stop all flows."""
        for run in self._runs.values():
            run.stop()

    def snapshot(self) -> list[FlowTally]:
        """Return the numbers of all flows, with the names of their files."""
        return [
            replace(tally, name=f"{Path(name).stem}/{tally.name}")
            for name, run in self._runs.items()
            for tally in run.snapshot()
        ]

    def _fail(self, name: str, error: FlowError) -> None:
        """Report a failure, after which the flows of this file have stopped."""
        self._failed.add(name)
        self._say(f"{name} stopped: {error}")


def check_names(files: Sequence[Path]) -> None:
    """Raise `PipelineError` if two files have one name, by which checkpoints and consumer groups are called."""
    seen: dict[str, Path] = {}
    for file in files:
        if (other := seen.setdefault(file.stem, file)) is not file:
            raise PipelineError(f"{other} and {file} have the same name; run them apart, or rename one")


def check_places(plans: Sequence[FlowPlan]) -> None:
    """Raise `FlowError` if flows of several files write to a place that only one may write to."""
    seen: dict[tuple[str, Path], FlowPlan] = {}
    for plan in plans:
        if (place := sole_place(plan.flow.sink)) is not None:
            kind, path = place
            where = Path(path) if "://" in path else plan.place.output / path
            if (other := seen.setdefault((kind, where), plan)) is not plan:
                raise FlowError(plan.name, f"flow {other.name} of another file writes to {where}, too")
