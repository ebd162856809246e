"""Flows in Spark's real-time mode: what they may declare, and what their queries may do.

In this mode, a batch lasts for seconds, and each record is processed and written as soon as it arrives. So a task is
busy with each partition all the time, Spark keeps the query on the JVM, and nothing holds back the records of a batch
until it is finished: a batch that is interrupted writes its records again.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.base import Sink, Source
from tailrace.spark.connector.error_policy import ErrorPolicy, OnError
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.error import PipelineError
from tailrace.spark.message import clean, shorten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REALTIME = "realtime"
EVERY = "10 seconds"
"""How long a batch lasts by default, and so how much is written again after a failure."""

_BATCH_S_MIN = 5
"""Spark's limit, `spark.sql.streaming.realTimeMode.minBatchDuration`."""

_SECONDS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86400}

_ONLY = {
    "mode": ("update", "real-time mode has no other output mode"),
    "delivery": ("at-least-once", "records are written as they arrive, before the batch is finished"),
    "state": ("disk", "real-time mode keeps state with RocksDB"),
}
"""The only values of arguments, with the reasons."""

_PYTHON = "a Python function"
_NODES = {
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "FlatMapCoGroupsInArrow": _PYTHON,
    "FlatMapCoGroupsInPandas": _PYTHON,
    "FlatMapGroupsInArrow": _PYTHON,
    "FlatMapGroupsInPandas": _PYTHON,
    "FlatMapGroupsInPandasWithState": _PYTHON,
    "MapInArrow": _PYTHON,
    "MapInPandas": _PYTHON,
    "PythonMapInArrow": _PYTHON,
    "TransformWithStateInPySpark": "transformWithState in Python",
}
"""What real-time mode cannot run, by the names of Spark's nodes; Spark itself refuses sorts and limits of streams."""


def check_latency(latency: Any) -> bool:
    """Return whether a declaration chooses real-time mode; raises `PipelineError`."""
    if latency not in (None, REALTIME):
        raise PipelineError(f'latency={latency!r} is not "{REALTIME}"; leave it out for micro-batches')
    return latency is not None


def check_realtime(
    sources: Sequence[Source], sink: Sink, errors: ErrorPolicy, given: Mapping[str, str | None]
) -> dict[str, str]:
    """Return the values of arguments that real-time mode needs; raises `PipelineError` for what it cannot do."""
    for end in (*sources, sink):
        if not isinstance(end, Topic):
            raise PipelineError(f'latency="{REALTIME}" reads and writes only topics, not {end}')
        if end.registered is not None:
            raise PipelineError(
                f'latency="{REALTIME}": {end}: values with schemas of a registry need {_PYTHON}, which it cannot run'
            )
    if errors.action is OnError.SEND:
        raise PipelineError(
            f'latency="{REALTIME}": dead letters are written by {_PYTHON}, which it cannot run; '
            'use errors="stop" or "skip"'
        )
    for name, (value, reason) in _ONLY.items():
        if given.get(name) not in (None, value):
            raise PipelineError(f'latency="{REALTIME}" needs {name}="{value}", not "{given[name]}": {reason}')
    every = given.get("every")
    if every is not None and _seconds(every) < _BATCH_S_MIN:
        raise PipelineError(f'latency="{REALTIME}": every="{every}" is less than {_BATCH_S_MIN} seconds')
    return {name: value for name, (value, _) in _ONLY.items()}


def _seconds(every: str) -> float:
    found = re.fullmatch(r"(\d+) *([a-z]+?)s?", every.strip())
    return float(found[1]) * _SECONDS.get(found[2], 0) if found else 0.0


def check_query(rows: "DataFrame") -> None:
    """Raise `PipelineError` if a query has a part that real-time mode cannot run. Spark says so when it has started."""
    jvm: Any = rows.sparkSession._jvm
    plan = rows._jdf.queryExecution().analyzed()
    for name, is_join_of_streams in _nodes(plan):
        refused = "a join of two streams" if is_join_of_streams else _NODES.get(name)
        if refused is not None:
            raise PipelineError(f'latency="{REALTIME}": real-time mode cannot run {refused}')
    if plan.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()):
        raise PipelineError(f'latency="{REALTIME}": real-time mode cannot run {_PYTHON}; use functions of Spark')
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkAdditionalRealTimeModeConstraints(plan, jvm.org.apache.spark.sql.streaming.OutputMode.Update())
    except Exception as error:  # Spark's own, of several kinds
        java = getattr(error, "java_exception", None)
        reason = str(error) if java is None else str(java.getMessage())
        raise PipelineError(f'latency="{REALTIME}": {shorten(clean(reason))}') from None


def _nodes(plan: Any) -> Iterator[tuple[str, bool]]:
    """Yield the name of each streaming node of a plan, and whether it joins two streams."""
    children = [plan.children().apply(index) for index in range(plan.children().size())]
    if plan.isStreaming():
        streams = [child for child in children if child.isStreaming()]
        yield str(plan.nodeName()), str(plan.nodeName()) == "Join" and len(streams) > 1
        for child in streams:
            yield from _nodes(child)


def check_cores(core_count: int, partition_counts: Mapping[str, int], has_other_flows: bool) -> None:
    """Raise `PipelineError` if the flows in real-time mode, with these numbers of partitions, need more cores."""
    needed = sum(partition_counts.values()) + has_other_flows
    if partition_counts and needed > core_count:
        raise PipelineError(
            f'latency="{REALTIME}" needs a core of Spark for each partition that is read, which is {needed} '
            f"with {'all flows' if len(partition_counts) + has_other_flows > 1 else 'this flow'}, and Spark has "
            f"{core_count}; use --master 'local[{needed}]' or more"
        )
