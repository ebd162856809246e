"""The place of a flow's state: in memory, or on disk by RocksDB.

Spark's store in memory is several times as fast for the state of most flows, and writes what has changed to the
checkpoint with each batch. All of the state must fit into the memory of the executors. RocksDB keeps state that is
larger, and `transformWithState` needs it. A checkpoint remembers its store: Spark goes on with that one, whatever the
flow chooses later.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_DEFAULT_FORMAT, _REALTIME_FORMAT = "1", "2"
"""Real-time mode repeats a batch with other rows, and so needs files that the first attempt has not named."""

_SETTING = "spark.sql.streaming.stateStore.providerClass"
_NEEDS_ROCKSDB = "TransformWithState"


class StateStore(StrEnum):
    """Where a flow keeps its state."""

    MEMORY = "memory"
    DISK = "disk"


_PROVIDERS = {
    StateStore.MEMORY: "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    StateStore.DISK: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}


def check_state(state: Any) -> StateStore | None:
    """Return the store that a declaration chooses; raises `PipelineError`."""
    if state is None:
        return None
    if state not in list(StateStore):
        raise PipelineError(f"state={state!r} is not one of {', '.join(StateStore)}")
    return StateStore(state)


def find_store(chosen: StateStore | None, plan: str) -> StateStore:
    """Return the store for a query with this plan; raises `PipelineError` if it cannot be the chosen one."""
    if _NEEDS_ROCKSDB not in plan:
        return chosen or StateStore.MEMORY
    if chosen is StateStore.MEMORY:
        raise PipelineError('transformWithState needs state="disk"; leave out state=')
    return StateStore.DISK


def analyzed_plan(rows: "DataFrame") -> str:
    """Return Spark's plan of a query as text, in which `find_store` looks."""
    return str(rows._jdf.queryExecution().analyzed().toString())


def use_store(rows: "DataFrame", chosen: StateStore | None, *, is_realtime: bool = False) -> None:
    """Have the next query that the session starts keep its state in the right store for these rows."""
    session = rows.sparkSession
    session.conf.set(_SETTING, _PROVIDERS[find_store(chosen, analyzed_plan(rows))])
    given = session.sparkContext.getConf().get(_FORMAT, _DEFAULT_FORMAT)
    session.conf.set(_FORMAT, _REALTIME_FORMAT if is_realtime else str(given))
