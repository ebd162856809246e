"""The identity of a task and its micro-batch, from Spark's task context."""

from typing import NamedTuple
from uuid import UUID

from tailrace.spark.error import WriteError

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_RUN_ID = "spark.jobGroup.id"  # the job group of a streaming query is the id of its run


class TaskPlace(NamedTuple):
    """A query (its id is in its checkpoint), its run (from start to stop), the batch, and the attempt."""

    query_id: str
    run_id: str
    batch_id: int
    attempt: int


def task_place() -> TaskPlace:
    """Return the place of the calling task; raises `WriteError` outside of a stream."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise WriteError("rows can be written exactly once only by Spark tasks, and this is not one")
    found = {name: context.getLocalProperty(name) for name in (_QUERY_ID, _RUN_ID, _BATCH_ID)}
    if missing := [name for name, text in found.items() if text is None]:
        raise WriteError(
            f"only streams are written exactly once, and this task belongs to none ({', '.join(missing)} not set). "
            "A batch that failed is not run again by itself; leave out option delivery"
        )
    run_id = str(found[_RUN_ID])
    if not _is_uuid(run_id):
        # If it were the same in the next run, a repeated batch would look like a second write.
        raise WriteError(
            f"{_RUN_ID} is {run_id!r} where a stream has the id of its run. Do not call setJobGroup in foreachBatch "
            "where rows are written exactly once; addJobTag does no harm"
        )
    return TaskPlace(str(found[_QUERY_ID]), run_id, int(str(found[_BATCH_ID])), int(context.attemptNumber()))


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
