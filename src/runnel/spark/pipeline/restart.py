"""Which failures of a flow can pass, and when the flow is started again. Pure.

A failure reaches the runner as text, because it has crossed Spark's JVM. Two kinds can pass: an error
of the data source whose class says so, and a Python worker that Spark lost or did not get in time.
Everything else is final: mistakes in the file, rows that do not fit, a checkpoint of another query.

Waits double from one restart to the next. The count starts anew after the flow has worked for a
while; the restarts in a row are bounded, and so are all of them for a pipeline that reads what is
there and ends.
"""

from dataclasses import dataclass

from runnel.base.limits import (
    PIPELINE_HEALTHY_S,
    PIPELINE_RESTART_WAIT_S_MAX,
    PIPELINE_RESTART_WAIT_S_MIN,
    PIPELINE_RESTARTS_MAX,
)
from runnel.spark.pipeline.cause import last_python_error
from runnel.spark.retriable import names_retriable

_LOST_WORKER = (
    "Python worker failed to connect back",
    "Python worker exited unexpectedly",
    "java.io.EOFException",
    "[STREAMING_PYTHON_RUNNER_INITIALIZATION_COMMUNICATION_FAILURE]",
    "[STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE]",
)
"""What Spark says, in these words, of a worker that the machine was too busy to start, or has killed."""

_OF_SPARK = ("py4j.", "pyspark.")
"""Errors with which a function of `foreachBatch` passes on what Spark said to it; the words follow in the text."""


def can_pass(failure: Exception) -> bool:
    """Whether a flow that failed may go on from its checkpoint."""
    text = str(failure)
    error = last_python_error(text)
    if error is not None and not error.kind.startswith(_OF_SPARK):
        return names_retriable(error.kind)
    return any(words in text for words in _LOST_WORKER)


@dataclass(slots=True)
class Restarts:
    """The starts of one flow."""

    is_once: bool = False
    count: int = 0  # restarts in a row
    due_at_s: float | None = None  # when a flow that waits is started again
    failed_at_s: float | None = None  # when a flow that is not back yet failed first
    _started_at_s: float = 0.0
    _worked_at_s: float | None = None  # when Spark last reported on it, since its start

    def start(self, now_s: float) -> None:
        """The flow is started, for the first time or again."""
        self.due_at_s = None
        self._started_at_s, self._worked_at_s = now_s, None

    def work(self, now_s: float) -> None:
        """Spark reports that the flow has done a batch, or has found nothing to do."""
        if self.due_at_s is None:  # the last report of a run that failed may come late
            self._worked_at_s = now_s

    def back_after_s(self) -> float | None:
        """How long the flow was away, once for each time that it comes back; None while it is not."""
        if self.failed_at_s is None or self._worked_at_s is None:
            return None
        away_s = self._worked_at_s - self.failed_at_s
        self.failed_at_s = None
        return away_s

    def fail(self, now_s: float) -> float | None:
        """Take note of a failure that can pass; the seconds to wait, or None if it was started too often."""
        has_worked_s = 0.0 if self._worked_at_s is None else self._worked_at_s - self._started_at_s
        if has_worked_s >= PIPELINE_HEALTHY_S and not self.is_once:
            self.count = 0
        if self.count >= PIPELINE_RESTARTS_MAX:
            return None
        wait_s = min(PIPELINE_RESTART_WAIT_S_MIN * 2.0**self.count, PIPELINE_RESTART_WAIT_S_MAX)
        self.count += 1
        self.due_at_s = now_s + wait_s
        if self.failed_at_s is None:
            self.failed_at_s = now_s
        return wait_s
