"""The restarts of flows after temporary failures. Pure.

A failure reaches the runner as text, because it has crossed Spark's JVM. Three kinds are temporary: a retriable error
of the data source or of Kafka's Java client, a Python worker that Spark lost or could not start in time, and a full
disk. All others are final: errors in the file, rows that do not fit the schema, a checkpoint of another query.

The wait doubles with each restart, up to a bound. The count starts again when the flow has worked for a while. The
number of restarts in a row is limited, and with --once the total number.
"""

from dataclasses import dataclass

from tailrace.base.limits import (
    PIPELINE_HEALTHY_S,
    PIPELINE_RESTART_WAIT_S_MAX,
    PIPELINE_RESTART_WAIT_S_MIN,
    PIPELINE_RESTARTS_MAX,
    PIPELINE_RESTARTS_ONCE_MAX,
)
from tailrace.spark.error import (
    MalformedValue,
    RetriableBrokerError,
    RetriableConnectorError,
    RetriableRegistryError,
    RetriableWriteError,
    RowRefused,
)
from tailrace.spark.pipeline.cause import RAISED, failure_text, last_python_error
from tailrace.spark.retriable import names_retriable

_LOST_WORKER = (
    "Python worker failed to connect back",
    "Python worker exited unexpectedly",
    "java.io.EOFException",
    "[STREAMING_PYTHON_RUNNER_INITIALIZATION_COMMUNICATION_FAILURE]",
    "[STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE]",
)
"""Spark's messages about a worker that could not start in time, or that was killed."""

_JAVA_CLIENT = tuple(
    f"org.apache.kafka.common.errors.{name}Exception"
    for name in ("Disconnect", "LeaderNotAvailable", "Network", "NotLeaderOrFollower", "Timeout")
)
"""Errors of Kafka's Java client, which flows in real-time mode use, that pass with the brokers' trouble."""

_FULL_DISK = "No space left on device"
"""The operating system's message, which Java and Python repeat. There may be room again, and nothing was written."""

_OF_A_RECORD = frozenset(f"{kind.__module__}.{kind.__qualname__}" for kind in (MalformedValue, RowRefused))
"""Errors with a piece of a value, in which the words of any other error may stand."""

_OF_SPARK = ("py4j.", "pyspark.")
"""Errors that carry Spark's message out of a function of `foreachBatch`."""


_OF_THE_DRIVER = (RetriableBrokerError, RetriableConnectorError, RetriableRegistryError, RetriableWriteError)
"""Temporary errors that have not crossed the JVM."""


def can_pass(failure: Exception) -> bool:
    """Return whether a failed flow may continue from its checkpoint."""
    if isinstance(failure, _OF_THE_DRIVER):
        return True
    text = failure_text(failure)
    error = last_python_error(text)
    if RAISED in text or (error is not None and error.kind in _OF_A_RECORD):
        return False
    if _FULL_DISK in text:
        return True
    if error is not None and not error.kind.startswith(_OF_SPARK):
        return names_retriable(error.kind)
    return any(words in text for words in (*_LOST_WORKER, *_JAVA_CLIENT))


_DOUBLINGS_MAX = 10  # a power of the number of restarts would overflow


@dataclass(slots=True)
class Restarts:
    """The restarts of one flow."""

    is_once: bool = False
    count_max: int | None = None  # a bound that was chosen
    count: int = 0  # restarts in a row
    due_at_s: float | None = None  # when a waiting flow is restarted
    failed_at_s: float | None = None  # when a flow that has not recovered failed first
    _started_at_s: float = 0.0
    _worked_at_s: float | None = None  # when Spark last reported on it since its start

    def start(self, now_s: float) -> None:
        """Record a start of the flow."""
        self.due_at_s = None
        self._started_at_s, self._worked_at_s = now_s, None

    def repeat(self, now_s: float) -> None:
        """Have the flow restarted at once; the reason of its failure is gone."""
        self.due_at_s = now_s

    def work(self, now_s: float) -> None:
        """Record that the flow has finished a batch or is idle."""
        if self.due_at_s is None:  # the last report of a failed run may be late
            self._worked_at_s = now_s

    def back_after_s(self) -> float | None:
        """Return how long the flow was down, once after each recovery; otherwise None."""
        if self.failed_at_s is None or self._worked_at_s is None:
            return None
        away_s = self._worked_at_s - self.failed_at_s
        self.failed_at_s = None
        return away_s

    def fail(self, now_s: float) -> float | None:
        """Record a temporary failure; returns the seconds to wait, or None after too many restarts."""
        has_worked_s = 0.0 if self._worked_at_s is None else self._worked_at_s - self._started_at_s
        if has_worked_s >= PIPELINE_HEALTHY_S and not self.is_once:
            self.count = 0
        if self.count >= self._bound:
            return None
        doubled = 2.0 ** min(self.count, _DOUBLINGS_MAX)
        wait_s = min(PIPELINE_RESTART_WAIT_S_MIN * doubled, PIPELINE_RESTART_WAIT_S_MAX)
        self.count += 1
        self.due_at_s = now_s + wait_s
        if self.failed_at_s is None:
            self.failed_at_s = now_s
        return wait_s

    @property
    def _bound(self) -> int:
        if self.count_max is not None:
            return self.count_max
        return PIPELINE_RESTARTS_ONCE_MAX if self.is_once else PIPELINE_RESTARTS_MAX
