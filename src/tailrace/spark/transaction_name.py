"""The transactional ids of a sink: one for its driver, and one for each task that a worker runs in a batch.

A sink is a query and the topic that it writes to. A worker process has its own ids in each run of a query, and reuses
them in the next batch, which starts when the last decision has been carried out. Within a batch no id is used twice,
because the prepared transaction of an earlier task or attempt has not ended yet.
"""

import uuid

from tailrace.base.limits import SPARK_RUNS_KEPT_MAX

_TASKS = "tailrace-spark-task"
_DRIVER = "tailrace-spark-driver"
_CLAIM = "claim/"


def sink_name(query_id: str, topic: str | None) -> str:
    """Return the name of a sink; without a topic, the rows name theirs. Topic names have no slash."""
    return f"{query_id}/{topic or ''}"


def driver_name(sink: str) -> str:
    """Return the transactional id with which the driver of a sink decides."""
    return f"{_DRIVER}/{sink}"


def claim_name(sink: str) -> str:
    """Return the key of a sink's claim in the topic of decisions; no query has the id `claim`."""
    return f"{_CLAIM}{sink}"


def sink_of_claim(name: str) -> str | None:
    """Return the sink whose claim has this key; None for the key of a decision."""
    return name.removeprefix(_CLAIM) if name.startswith(_CLAIM) else None


def task_names(sink: str) -> str:
    """Return the prefix of the ids of a sink's tasks."""
    return f"{_TASKS}/{sink}/"


def query_names(query_id: str) -> str:
    """Return the prefix of the ids of a query's tasks, for all sinks."""
    return f"{_TASKS}/{query_id}/"


def sink_of(task_name: str) -> str:
    """Return the sink of a task's id."""
    return "/".join(task_name.split("/")[1:3])


class TaskNames:
    """The ids of one worker process."""

    def __init__(self) -> None:
        self._process = _new_process()
        self._used: dict[tuple[str, str], tuple[int, int]] = {}  # batch and count by sink and run

    def take(self, sink: str, run_id: str, batch_id: int) -> str:
        """Return an id for the next task of a batch."""
        last_batch_id, count = self._used.get((sink, run_id), (batch_id, 0))
        if batch_id > last_batch_id:  # not for a late attempt of a finished batch
            last_batch_id, count = batch_id, 0
        self._used[sink, run_id] = last_batch_id, count + 1
        name = f"{task_names(sink)}{run_id}/{self._process}/{count}"
        if len(self._used) > SPARK_RUNS_KEPT_MAX:
            self._used.clear()
            self._process = _new_process()  # a forgotten id must not be used again
        return name


def _new_process() -> str:
    return uuid.uuid4().hex[:12]
