"""The rounds of a mirror as jobs of Spark."""

import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tailrace.base.mirror_limits import MIRROR_ERROR_LENGTH_MAX
from tailrace.client.loop_thread import LoopThread
from tailrace.spark.mirror.copy_task import run_copy
from tailrace.spark.mirror.error import MirrorError
from tailrace.spark.mirror.job import CopyJob, CopyReport
from tailrace.spark.mirror.mirror import Mirror
from tailrace.spark.mirror.option import MirrorOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PYTHON_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b")
RunJobs = Callable[[Sequence[CopyJob]], list[CopyReport]]
IDLE_S = 1.0
"""The wait before the next round if there is nothing to copy, or a task has failed."""
ONCE_PATIENCE_S = 60.0
"""How long a run with --once goes on without copying anything."""


def on_spark(spark: "SparkSession") -> RunJobs:
    """Return the function that runs the tasks of a round on the executors of a session."""

    from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    def run(jobs: Sequence[CopyJob]) -> list[CopyReport]:
        try:
            return spark.sparkContext.parallelize(jobs, len(jobs)).map(run_copy).collect()
        except Py4JNetworkError:
            raise MirrorError("the JVM of Spark has ended") from None
        except (Py4JError, PySparkException) as error:
            # A worker or an executor was lost. Its task copied whole transactions; the next round goes on after them.
            text = f"a task of Spark was lost: {find_reason(str(error))}"
            return [CopyReport(job.bucket, error=text) for job in jobs]

    return run


def find_reason(text: str) -> str:
    """Return the line of an error of Spark that says what happened: that of a Python error, or the first one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    start = next((index for index, line in enumerate(lines) if line.startswith("Traceback")), None)
    raised = [line for line in lines[start or 0 :] if _PYTHON_ERROR.match(line)] if start is not None else []
    return (raised or lines or ["no reason given"])[0][:MIRROR_ERROR_LENGTH_MAX]


class MirrorRun:
    """Runs rounds until it is stopped, on an event loop of its own."""

    def __init__(self, options: MirrorOptions, say: Callable[[str], None]) -> None:
        self.mirror = Mirror(options)
        self._say = say
        self._said: dict[str, str | None] = {}
        self._thread = LoopThread("tailrace-mirror-driver")

    def start(self, *, once: bool = False) -> None:
        """Check everything and claim the mirror; raises `MirrorError`."""
        self._thread.call(self.mirror.start(once=once))

    def run_round(self, run_jobs: RunJobs) -> bool:
        """Run one round; False if there was nothing to copy."""
        jobs = self._thread.call(self.mirror.plan_round())
        if not jobs:
            return False
        started_at_s = time.monotonic()
        reports = run_jobs(jobs)
        self._thread.call(self.mirror.take_reports(jobs, reports, time.monotonic() - started_at_s))
        self._tell()
        return True

    def run(self, run_jobs: RunJobs, is_over: Callable[[float], bool], *, once: bool = False) -> None:
        """Run rounds until `is_over`, which waits for up to so many seconds, or with `once` until all is copied."""
        copied_at_s, copied = time.monotonic(), 0
        while not is_over(0.0):
            has_copied = self.run_round(run_jobs)
            if not has_copied and once:
                break
            if not has_copied or self.mirror.error:
                is_over(IDLE_S)
            count = sum(status.record_count for status in self.mirror.statuses.values())
            if count != copied:
                copied_at_s, copied = time.monotonic(), count
            if once and self.mirror.error and time.monotonic() - copied_at_s > ONCE_PATIENCE_S:
                raise MirrorError(self.mirror.error)
        self._thread.call(self.mirror.finish())
        errors = [status.error for status in self.mirror.statuses.values() if status.error]
        if once and errors:
            raise MirrorError("; ".join(errors))

    def _tell(self) -> None:
        """Print errors that are new."""
        found = {topic: status.error for topic, status in self.mirror.statuses.items()}
        found |= {"": self.mirror.error, "groups": self.mirror.sync_error}
        for what, error in found.items():
            if error is not None and self._said.get(what) != error:
                self._say(error)
            self._said[what] = error

    def close(self) -> None:
        """Close every connection."""
        self._thread.call(self.mirror.close())
        self._thread.close()
