"""Jobs with files: folders of Parquet and JSON, and the lines of one file next to Kafka Connect's FileStream."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet

from bench.connector_jobs.job import (
    SCHEMA,
    TOPIC,
    Instead,
    Job,
    Place,
    raw_topic_sink,
    topic_sink,
    topic_source,
    watch,
)

_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


def file_jobs(place: Place) -> Iterator[Job]:
    """Parquet files as a sink, and JSON lines as a source."""
    rows, folder = place.rows, place.folder
    source = folder / "json"
    source.mkdir()
    for index in range(4):
        (source / f"{index}.json").write_bytes(b"\n".join(rows.lines[index::4]) + b"\n")

    def write() -> None:
        pa.parquet.write_table(rows.table, folder / "alone.parquet")

    def read() -> None:
        for path in source.iterdir():
            pa.json.read_json(path)

    def new_folder() -> dict[str, Any]:
        return {"connector": "files", "path": str(folder / uuid.uuid4().hex), "format": "parquet"}

    yield Job("topic to files (Parquet)", topic_source(), new_folder, rows.count, "pyarrow writes Parquet", write)
    files = {"connector": "files", "path": str(source), "format": "json", "schema": SCHEMA}
    yield Job("files (JSON lines) to topic", files, topic_sink, rows.count, "pyarrow reads JSON lines", read)


def line_jobs(place: Place) -> Iterator[Job]:
    """The lines of one file as a source and as a sink."""
    path = place.folder / "lines.txt"
    path.write_bytes(b"\n".join(place.rows.lines) + b"\n")
    alone = place.folder / "alone.txt"

    def read() -> None:
        with path.open("rb") as file:
            for _ in file:
                pass

    def write() -> None:
        with alone.open("wb") as file:
            for line in place.rows.lines:
                file.write(line + b"\n")

    yield Job(
        "lines to topic",
        *({"connector": "lines", "path": str(path)}, raw_topic_sink, place.rows.count),
        *("Python reads the lines", read),
        instead=_file_stream_source(place, path),
    )
    yield Job(
        "topic to lines",
        {"connector": "topic", "name": TOPIC, "include": ["value"]},
        lambda: {"connector": "lines", "path": str(place.folder / f"{uuid.uuid4().hex}.txt")},
        place.rows.count,
        *("Python writes the lines", write),
        instead=_file_stream_sink(place, path.stat().st_size),
    )


def _file_stream_source(place: Place, path: Path) -> tuple[Instead, ...]:
    connect = place.connect()
    if connect is None:
        return ()

    def run() -> float:
        topic = place.create_topic()
        with connect.running({"connector.class": _SOURCE, "file": str(path), "topic": topic}):
            return place.watch_topic(topic)

    return (Instead("Kafka Connect's FileStream source", run),)


def _file_stream_sink(place: Place, size_bytes: int) -> tuple[Instead, ...]:
    connect = place.connect()
    if connect is None:
        return ()

    def run() -> float:
        path = place.folder / f"{uuid.uuid4().hex}.txt"
        config = {
            "connector.class": _SINK,
            "file": str(path),
            "topics": TOPIC,
            "consumer.override.auto.offset.reset": "earliest",
        }
        with connect.running(config):
            return watch(lambda: path.stat().st_size if path.exists() else 0, size_bytes)

    return (Instead("Kafka Connect's FileStream sink", run),)
