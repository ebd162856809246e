"""Where a flow reads from and where it writes to: topics and Parquet files, as plain declarations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from runnel.spark.column import COLUMN_TYPES
from runnel.spark.error import OptionError
from runnel.spark.pipeline.error import PipelineError
from runnel.spark.position import parse_offsets

_OWN_OPTIONS = {
    "subscribe": "name the topics in topic()",
    "subscribepattern": "name the topics in topic()",
    "assign": "name the topics in topic()",
    "topic": "name the topic in topic()",
    "columns": "use include=",
    "includeheaders": 'use include=("headers",)',
    "startingoffsets": "use start=",
    "checkpointlocation": "use --checkpoint",
    "path": "the path is the first argument",
}
"""Options of Spark that a pipeline sets by itself, and what to use instead."""


class Malformed(StrEnum):
    """What becomes of a value that is not JSON, or not of the schema."""

    FAIL = "fail"
    DROP = "drop"
    NULL = "null"


class Encoding(StrEnum):
    """How rows become records."""

    JSON = "json"
    RAW = "raw"


@dataclass(frozen=True, slots=True)
class Topic:
    """One or several topics to read, or one to write; made by `topic`."""

    names: tuple[str, ...]
    schema: Any = None
    include: tuple[str, ...] = ()
    malformed: Malformed | None = None
    start: str | None = None
    key: str | None = None
    encoding: Encoding | None = None
    partitions: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"topic {','.join(self.names)}"


@dataclass(frozen=True, slots=True)
class Parquet:
    """A folder of Parquet files to write; made by `parquet`."""

    path: str
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"parquet {self.path}"


def topic(
    *names: str,
    schema: Any = None,
    include: Sequence[str] = (),
    malformed: str | None = None,
    start: str | None = None,
    key: str | None = None,
    format: str | None = None,
    partitions: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Topic:
    """Topics as the source of a flow, or a topic as its sink.

    A source with a `schema` (DDL such as "user string, at timestamp", or a StructType) has its values
    decoded from JSON into these columns, and `include` keeps columns of the record beside them
    ("key", "timestamp", …); without a schema the columns are those of the record, as Spark's Kafka source
    has them. `malformed` says what becomes of a value that does not fit: "fail" (the default), "drop"
    or "null". A flow without a checkpoint starts at `start`: "earliest" (the default),
    "latest", or offsets as JSON.

    A sink writes each row as a JSON object, with the column `key` as key; format="raw" writes the
    columns `value`, `key`, `headers` and `partition` as they are. A sink that does not exist is made,
    with so many `partitions`. `options` are those of the data source, such as maxOffsetsPerTrigger.
    """
    if not names:
        raise PipelineError("topic() needs the name of a topic")
    for name in names:
        if not isinstance(name, str) or not name.strip() or "," in name:
            raise PipelineError(f"topic(): {name!r} is not the name of a topic")
    if partitions is not None and (not isinstance(partitions, int) or isinstance(partitions, bool) or partitions < 1):
        raise PipelineError(f"topic({names[0]!r}): partitions={partitions!r} is not a number from 1 on")
    place = f"topic({names[0]!r})"
    return Topic(
        names=names,
        schema=_check_schema(place, schema),
        include=_check_include(place, include),
        malformed=None if malformed is None else Malformed(_choose(place, "malformed", malformed, Malformed)),
        start=_check_start(place, start),
        key=key,
        encoding=None if format is None else Encoding(_choose(place, "format", format, Encoding)),
        partitions=partitions,
        options=_check_options(place, options),
    )


def parquet(path: Any, *, partition_by: Sequence[str] = (), options: Mapping[str, Any] | None = None) -> Parquet:
    """A folder of Parquet files as the sink of a flow.

    A path that is not absolute begins at the folder of the pipeline file, or at the one that `--output`
    names. `partition_by` makes a folder for each value of some columns.
    """
    text = str(path)
    if not text.strip():
        raise PipelineError("parquet() needs the path of a folder")
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    return Parquet(text, columns, _check_options(f"parquet({text!r})", options))


def _check_schema(place: str, schema: Any) -> Any:
    if schema is None or hasattr(schema, "fieldNames") or (isinstance(schema, str) and schema.strip()):
        return schema
    raise PipelineError(f'{place}: schema={schema!r} is no schema, such as "user string, at timestamp" or a StructType')


def _check_include(place: str, include: Sequence[str]) -> tuple[str, ...]:
    columns = (include,) if isinstance(include, str) else tuple(include)
    for name in columns:
        if name not in COLUMN_TYPES:
            raise PipelineError(f"{place}: a record has no column {name!r}; there are {', '.join(COLUMN_TYPES)}")
    return columns


def _check_start(place: str, start: object) -> str | None:
    if start is None or start in ("earliest", "latest"):
        return None if start is None else str(start)
    try:
        parse_offsets("start", str(start))
    except OptionError as error:
        raise PipelineError(f'{place}: start={start!r} is neither "earliest" nor "latest"; {error.reason}') from None
    return str(start)


def _choose(place: str, name: str, value: object, kind: type[StrEnum]) -> str:
    choices = [choice.value for choice in kind]
    if value not in choices:
        raise PipelineError(f"{place}: {name}={value!r} is none of {', '.join(choices)}")
    return str(value)


def _check_options(place: str, options: Mapping[str, Any] | None) -> dict[str, str]:
    found = {}
    for name, value in (options or {}).items():
        if name.lower() in _OWN_OPTIONS:
            raise PipelineError(f"{place}: option {name} is set by the pipeline; {_OWN_OPTIONS[name.lower()]}")
        found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found
