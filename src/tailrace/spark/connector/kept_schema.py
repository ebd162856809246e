"""Schemas that a source takes from its data: chosen when the flow first starts, and kept in its checkpoint.

Otherwise a column that has vanished from the data, or has another type, would change the output of a flow in silence
at its next start. The schema is chosen anew after `tailrace pipeline reset`.
"""

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.spark.connector.base import FlowStart
from tailrace.spark.connector.durable import write_durably
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def keep_schema(start: FlowStart, source: str, infer: "Callable[[], StructType]") -> "StructType":
    """Return the schema that the checkpoint has for a source, or the one that `infer` finds; it is then kept."""
    from pyspark.sql.types import StructType

    name = hashlib.blake2b(source.encode(), digest_size=8).hexdigest()
    path = start.place.checkpoint / f"schema-{name}.json"
    try:
        text = path.read_text()
    except FileNotFoundError:
        schema = infer()
        start.before_start(lambda: write_durably(path, schema.json()))
        return schema
    try:
        return StructType.fromJson(_parse(text))
    except (ValueError, TypeError, KeyError) as error:
        raise PipelineError(f"the checkpoint file {path} cannot be read: {error}") from None


def _parse(text: str) -> dict[str, object]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError("it is not a schema")
    return found
