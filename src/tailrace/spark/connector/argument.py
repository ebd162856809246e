"""Checks of the arguments with which a pipeline file declares sources and sinks."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tailrace.spark.error import PipelineError
from tailrace.spark.message import explain_query
from tailrace.spark.record_place import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_OWN_OPTIONS = {
    "subscribe": "name the topics in topic()",
    "subscribepattern": "name the topics in topic()",
    "assign": "name the topics in topic()",
    "topic": "name the topic in topic()",
    "columns": "use include=",
    "includeheaders": 'use include=("headers",)',
    "startingoffsets": "use start=",
    "checkpointlocation": "use --checkpoint",
    "delivery": "use delivery= of the flow",
    "path": "the path is the first argument",
}
"""Options of Spark that the pipeline sets, and their replacements."""


DURATION = re.compile(r"(\d+) *(seconds?|minutes?|hours?|days?)")
_UNIT_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


class Malformed(StrEnum):
    """The handling of values that are not valid for the schema, where errors= of the flow does not decide."""

    NULL = "null"


def check_schema(place: str, schema: Any) -> Any:
    """Return a schema; raises `PipelineError` if it is neither text nor a StructType."""
    if schema is None or hasattr(schema, "fieldNames") or (isinstance(schema, str) and schema.strip()):
        return schema
    raise PipelineError(
        f'{place}: schema={schema!r} is not a schema such as "user string, at timestamp" or a StructType'
    )


def parse_schema(place: str, schema: Any) -> "StructType":
    """Return a schema that `check_schema` has accepted as Spark's; raises `PipelineError` if its text is wrong."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        parsed = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    except PySparkException as error:
        raise PipelineError(f"{place}: schema {schema!r} is not a schema: {explain_query(str(error)).reason}") from None
    if not isinstance(parsed, StructType):
        raise PipelineError(f"{place}: a schema has named columns, and {schema!r} has none")
    return parsed


def check_malformed(place: str, malformed: object) -> Malformed | None:
    """Return whether malformed values are null; raises `PipelineError` for what errors= of the flow decides."""
    if malformed is None:
        return None
    if malformed != Malformed.NULL:
        raise PipelineError(
            f'{place}: malformed={malformed!r} is not "null"; errors= of the flow has the choices "stop", "skip" and '
            '{"to": TOPIC}'
        )
    return Malformed.NULL


def check_choice(place: str, name: str, value: object, kind: type[StrEnum]) -> str:
    """Return a value of an enumeration; raises `PipelineError` that lists the values."""
    choices = [choice.value for choice in kind]
    if value not in choices:
        raise PipelineError(f"{place}: {name}={value!r} is not one of {', '.join(choices)}")
    return str(value)


def check_options(place: str, options: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the options for Spark as text; raises `PipelineError` for those that the pipeline sets."""
    found = {}
    for name, value in (options or {}).items():
        if name.lower() in _OWN_OPTIONS:
            raise PipelineError(f"{place}: option {name} is set by the pipeline; {_OWN_OPTIONS[name.lower()]}")
        found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def check_duration_s(place: str, name: str, given: object) -> float:
    """Return the seconds of a duration; raises `PipelineError` if it is none."""
    match = DURATION.fullmatch(given.strip()) if isinstance(given, str) else None
    if match is None:
        raise PipelineError(f'{place}: {name}={given!r} is not a duration such as "5 seconds"')
    return float(match[1]) * _UNIT_S[match[2].rstrip("s")]


def check_columns(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns, of which there may be one or several."""
    return (names,) if isinstance(names, str) else tuple(names)


def refuse_origin(names: Iterable[str], what: object) -> None:
    """Raise `PipelineError` if a column has the name of that for the origin of rows, in whatever case."""
    for name in names:
        if name.lower() == ORIGIN:
            raise PipelineError(f"{what} has a column {name}, a name that Tailrace uses itself; rename it")


def require_columns(rows: "DataFrame", names: Sequence[str], sink: object) -> None:
    """Raise `PipelineError` if the result of a flow lacks a column that its sink needs."""
    for name in names:
        if name not in rows.columns:
            raise PipelineError(f"{sink} needs a column {name!r}, and the result has {', '.join(rows.columns)}")
