"""Which task of which micro-batch this is, as Spark tells its Python workers."""

from typing import NamedTuple
from uuid import UUID

from runnel.spark.error import WriteError

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_RUN_ID = "spark.jobGroup.id"  # a streaming query names its jobs by its run


class TaskPlace(NamedTuple):
    """A query, whose id stays the same with its checkpoint; its run, from start to stop; the batch; the attempt."""

    query_id: str
    run_id: str
    batch_id: int
    attempt: int


def task_place() -> TaskPlace:
    """Where the task that calls this stands."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise WriteError("rows are written exactly once by tasks of Spark alone, and this is none")
    found = {name: context.getLocalProperty(name) for name in (_QUERY_ID, _RUN_ID, _BATCH_ID)}
    if missing := [name for name, text in found.items() if text is None]:
        raise WriteError(
            f"only streams are written exactly once, and this task belongs to none ({', '.join(missing)} not set). "
            "A batch that failed is not run again by itself; leave out option delivery"
        )
    run_id = str(found[_RUN_ID])
    if not _is_uuid(run_id):
        # Were it the same in the next run, a batch that is run again could not be told from a second write.
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
