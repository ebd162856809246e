"""Records that a flow excludes because its function failed for them, in a file of its checkpoint.

The file belongs to the batch in which the function failed. When that batch is finished, the file has no effect: the
records are not read again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.durable import write_durably
from tailrace.spark.error import PipelineError
from tailrace.spark.record_place import RecordPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

_FILE = "left-out.json"
_COMMITS = "commits"
_PLACE = ("topic", "partition", "offset")


def read_left_out(checkpoint: Path) -> list[RecordPlace]:
    """Return the records that the unfinished batch of a flow excludes; raises `PipelineError` for a damaged file."""
    path = checkpoint / _FILE
    try:
        found = json.loads(path.read_text())
        if _is_finished(checkpoint, int(found["batch"])):
            return []
        return [RecordPlace(str(topic), int(partition), int(offset)) for topic, partition, offset in found["records"]]
    except FileNotFoundError:
        return []
    except (ValueError, TypeError, KeyError) as error:
        raise PipelineError(f"the checkpoint file {path} cannot be read: {error}") from None


def write_left_out(checkpoint: Path, batch_id: int, records: Iterable[RecordPlace]) -> None:
    """Replace the records that a batch excludes."""
    write_durably(checkpoint / _FILE, json.dumps({"batch": batch_id, "records": sorted(records)}))


def load_without(
    reader: "DataFrameReader | DataStreamReader", options: Mapping[str, str], records: Sequence[RecordPlace]
) -> "DataFrame":
    """Load the rows of a reader of topics with these options, without some records."""
    if not records:
        return reader.options(**options).load()
    columns = options.get("columns")
    if columns is None:
        return _without(reader.options(**options).load(), records)
    names = columns.split(",")
    wider = {**options, "columns": ",".join(dict.fromkeys((*names, *_PLACE)))}
    return _without(reader.options(**wider).load(), records).select(*names)


def _without(rows: "DataFrame", records: Sequence[RecordPlace]) -> "DataFrame":
    from pyspark.sql.functions import col

    offsets: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in records:
        offsets.setdefault((topic, partition), []).append(offset)
    for (topic, partition), some in offsets.items():
        is_there = (col("topic") == topic) & (col("partition") == partition)
        rows = rows.where(~(is_there & col("offset").isin(some)))
    return rows


def _is_finished(checkpoint: Path, batch_id: int) -> bool:
    try:
        names: Any = (path.name for path in (checkpoint / _COMMITS).iterdir())
        return any(int(name) >= batch_id for name in names if name.isdigit())
    except FileNotFoundError:
        return False
