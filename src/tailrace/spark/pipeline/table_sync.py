"""The flow that writes a topic to a table and needs no file."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.lake.endpoint import LakeEndpoint
from tailrace.spark.connector.lake.setting import check_names
from tailrace.spark.connector.topic.topic import topic
from tailrace.spark.error import PipelineError
from tailrace.spark.pipeline.flow import Flow, flow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALUE, KEY = "value", "key"
DELETED = "value IS NULL"
"""The condition under which a record of a compacted topic deletes the row of its key."""

_RECORD = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


@dataclass(frozen=True, slots=True)
class SyncSource:
    """What is read: a topic, and the form of its values."""

    name: str
    schema: str | None = None
    value: str | None = None
    registry: str | None = None
    is_changes: bool = False
    start: str | None = None

    @property
    def has_columns(self) -> bool:
        """Whether values are decoded."""
        return self.schema is not None or self.value is not None


def flow_name(topic_name: str) -> str:
    """Return the name of the flow for a topic."""
    return f"sync_{re.sub('[^A-Za-z0-9]', '_', topic_name)}"


def sink_arguments(source: SyncSource, key: str) -> dict[str, Any]:
    """Return the arguments of the sink that depend on the form of the topic; raises `PipelineError`."""
    names = check_names(key)
    if source.is_changes:
        if not names:
            raise PipelineError("changes of a database need --key, the columns that tell which row has changed")
        return {"key": names, "changes": "debezium"}
    if not names:
        return {}
    if not source.has_columns and names != (KEY,):
        raise PipelineError("without --schema or --value, the only key is that of the record: --key key")
    return {"key": names, "delete_when": DELETED, "exclude": VALUE if source.has_columns else ()}


def sync_flow(source: SyncSource, key: str, sink: LakeEndpoint, every: str | None, errors: Any) -> Flow:
    """Return the flow; raises `PipelineError`."""
    names = check_names(key)
    arguments: dict[str, Any] = {"start": source.start}
    if source.has_columns:
        follows = source.registry is not None or source.value in ("avro", "protobuf")
        arguments |= {"value": source.value, "registry": source.registry, "follow": follows}
        arguments["schema"] = _envelope(source.schema) if source.is_changes else source.schema
        if not source.is_changes:
            arguments["include"] = (KEY, VALUE) if names else ()
            arguments["tombstones"] = None if names else "drop"
    else:
        arguments["include"] = (KEY, VALUE, "timestamp") if names else _RECORD
    takes_key = bool(names) and source.has_columns and not source.is_changes
    function = _make_function(names if takes_key else ())
    function.__name__ = flow_name(source.name)
    given = topic(source.name, **arguments)
    return flow(source=given, sink=sink, every=every, errors=errors)(function)


def check_checkpoint(sink: LakeEndpoint, name: str, checkpoint: Path, output: Path | None) -> None:
    """Raise `PipelineError` if a flow with another checkpoint has added rows, which this one would add again."""
    from tailrace.spark.connector.replay import read_query_id

    table = sink.open_table(FlowPlace(name, checkpoint, output or Path.cwd()))
    last = None if table is None else next((each.note for each in table.list_notes() if each.note.flow == name), None)
    if last is None:
        return
    if not (checkpoint / "metadata").exists() or read_query_id(checkpoint) != last.query_id:
        raise PipelineError(
            f"{sink} has rows of a sync whose checkpoint is not in {checkpoint.parent}, and they would be added again; "
            "name its folder with --checkpoint, or write to another table"
        )


def _make_function(key: tuple[str, ...]) -> "Callable[[DataFrame], DataFrame]":
    """Return the function that takes a key column from the record's key where the value does not have it."""

    def take_key(rows: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as f

        if not key:
            return rows
        if len(key) > 1:
            return rows.drop(KEY)
        name = key[0]
        text = f.col(KEY).cast("string")
        if name == KEY:
            return rows.withColumn(KEY, text)
        columns = [each for each in rows.columns if each not in (KEY, name)]
        if name in rows.columns:
            text = f.coalesce(f.col(f"`{name}`"), text.try_cast(rows.schema[name].dataType))
        return rows.select(text.alias(name), *(f"`{each}`" for each in columns))

    return take_key


def _envelope(schema: str | None) -> str | None:
    return None if schema is None else f"before struct<{schema}>, after struct<{schema}>, op string"
