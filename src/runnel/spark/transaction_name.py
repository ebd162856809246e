"""The transactional ids of a sink: one for its driver, and one for each task that a worker runs in a batch.

A sink is a query with the topic that it writes to. A worker process has ids of its own in each run of a query, and
uses them again in the next batch: that one begins when all that was decided about the last has been carried out.
Within a batch none is used twice, because a transaction that was prepared by an earlier task, or by another attempt,
still waits for its end.
"""

import uuid

from runnel.base.limits import SPARK_RUNS_KEPT_MAX

_TASKS = "runnel-spark-task"
_DRIVER = "runnel-spark-driver"
_CLAIM = "claim/"


def sink_name(query_id: str, topic: str | None) -> str:
    """The name of a sink; without a topic its rows name theirs. No topic has a slash in its name."""
    return f"{query_id}/{topic or ''}"


def driver_name(sink: str) -> str:
    """The id under which the driver of a sink decides."""
    return f"{_DRIVER}/{sink}"


def claim_name(sink: str) -> str:
    """The key of the sink's claim in the topic of decisions; no id of a query is `claim`."""
    return f"{_CLAIM}{sink}"


def sink_of_claim(name: str) -> str | None:
    """The sink whose claim has this key; None for the key of a decision."""
    return name.removeprefix(_CLAIM) if name.startswith(_CLAIM) else None


def task_names(sink: str) -> str:
    """The beginning of the ids of all tasks of a sink."""
    return f"{_TASKS}/{sink}/"


def query_names(query_id: str) -> str:
    """The beginning of the ids of all tasks of a query, whatever its sinks."""
    return f"{_TASKS}/{query_id}/"


def sink_of(task_name: str) -> str:
    """The sink to which the id of a task belongs."""
    return "/".join(task_name.split("/")[1:3])


class TaskNames:
    """The ids of one worker process."""

    def __init__(self) -> None:
        self._process = _new_process()
        self._used: dict[tuple[str, str], tuple[int, int]] = {}  # batch and count by sink and run

    def take(self, sink: str, run_id: str, batch_id: int) -> str:
        """An id for the next task of a batch."""
        last_batch_id, count = self._used.get((sink, run_id), (batch_id, 0))
        if batch_id > last_batch_id:  # and not for a late attempt of a batch that is over
            last_batch_id, count = batch_id, 0
        self._used[sink, run_id] = last_batch_id, count + 1
        name = f"{task_names(sink)}{run_id}/{self._process}/{count}"
        if len(self._used) > SPARK_RUNS_KEPT_MAX:
            self._used.clear()
            self._process = _new_process()  # so that what is forgotten is not used again
        return name


def _new_process() -> str:
    return uuid.uuid4().hex[:12]
