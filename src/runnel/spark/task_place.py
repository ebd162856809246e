"""Which task of which micro-batch this is, as Spark tells its Python workers."""

from typing import NamedTuple

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
    return TaskPlace(
        str(found[_QUERY_ID]), str(found[_RUN_ID]), int(str(found[_BATCH_ID])), int(context.attemptNumber())
    )
