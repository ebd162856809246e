"""The final check of the demo: every acknowledged event is in the files that Spark wrote."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from tailrace.client.topic_partition import TopicPartition

_LOG = "_spark_metadata"


def committed_files(folder: Path) -> list[Path]:
    """Return the files of finished batches of a streaming sink, from Spark's metadata log."""
    log = folder / _LOG
    paths = {path for entry in sorted(log.iterdir()) if not entry.name.startswith(".") for path in _added(entry)}
    return sorted(paths)


def _added(entry: Path) -> Iterator[Path]:
    for line in entry.read_text().splitlines()[1:]:  # the first line is the version
        found = json.loads(line)
        if found.get("action") == "add":
            yield Path(unquote(urlparse(found["path"]).path))


def read_parquet(folder: Path) -> tuple[int, Any]:
    """Return the number of files of a flow, and their rows as an Arrow table; None before the first batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = committed_files(folder) if (folder / _LOG).is_dir() else []
    tables = [pq.read_table(file) for file in files]
    return len(files), pa.concat_tables(tables) if tables else None


def find_missing(rows: Any, ends: Mapping[TopicPartition, int]) -> list[str]:
    """Return a line for each partition whose rows do not have every offset before its end exactly once."""
    read: dict[TopicPartition, list[int]] = {}
    if rows is not None:
        columns = (rows.column(name).to_pylist() for name in ("topic", "partition", "offset"))
        for topic, partition, offset in zip(*columns, strict=True):
            read.setdefault(TopicPartition(topic, partition), []).append(offset)
    problems = []
    for partition, end in sorted(ends.items()):
        offsets = read.get(partition, [])
        missing = set(range(end)) - set(offsets)
        if missing:
            problems.append(
                f"{partition}: {len(missing)} acknowledged events were not read, offset {min(missing)} first"
            )
        if len(offsets) > len(set(offsets)):
            problems.append(f"{partition}: {len(offsets) - len(set(offsets))} events are in the files twice")
    return problems
