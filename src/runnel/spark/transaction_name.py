"""The transactional ids of a query: one for its driver, and one for each task that a worker runs in a batch.

A worker process has ids of its own in each run of a query, and uses them again in the next batch: that one begins
when all that was decided about the last has been carried out. Within a batch none is used twice, because a
transaction that was prepared by an earlier task, or by another attempt, still waits for its end.
"""

import uuid

from runnel.base.limits import SPARK_RUNS_KEPT_MAX

_TASKS = "runnel-spark-task"
_DRIVER = "runnel-spark-driver"


def driver_name(query_id: str) -> str:
    """The id under which the driver of a query decides."""
    return f"{_DRIVER}-{query_id}"


def task_names(query_id: str) -> str:
    """The beginning of the ids of all tasks of a query."""
    return f"{_TASKS}-{query_id}-"


class TaskNames:
    """The ids of one worker process."""

    def __init__(self) -> None:
        self._process = _new_process()
        self._used: dict[tuple[str, str], tuple[int, int]] = {}  # batch and count by query and run

    def take(self, query_id: str, run_id: str, batch_id: int) -> str:
        """An id for the next task of a batch."""
        last_batch_id, count = self._used.get((query_id, run_id), (batch_id, 0))
        if last_batch_id != batch_id:
            count = 0
        self._used[query_id, run_id] = batch_id, count + 1
        name = f"{task_names(query_id)}{run_id}-{self._process}-{count}"
        if len(self._used) > SPARK_RUNS_KEPT_MAX:
            self._used.clear()
            self._process = _new_process()  # so that what is forgotten is not used again
        return name


def _new_process() -> str:
    return uuid.uuid4().hex[:12]
