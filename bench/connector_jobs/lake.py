"""Jobs with Delta and Iceberg tables, next to the libraries deltalake and pyiceberg alone.

The Spark connectors of both have no release that works with the Spark of this project.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.connector_jobs.job import Job, Place, topic_sink, topic_source

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def delta_jobs(place: Place) -> Iterator[Job]:
    """A table as a sink, by appending and by key, and as a source."""
    import deltalake

    rows, source = place.rows, place.folder / "delta-source"
    deltalake.write_deltalake(str(source), rows.table)

    def new_table(**more: Any) -> dict[str, Any]:
        return {"connector": "delta", "path": str(place.folder / uuid.uuid4().hex), **more}

    def append() -> None:
        deltalake.write_deltalake(str(place.folder / uuid.uuid4().hex), rows.table)

    def merge() -> None:
        path = str(place.folder / uuid.uuid4().hex)
        deltalake.write_deltalake(path, rows.table.slice(0, 0))
        merging = deltalake.DeltaTable(path).merge(rows.table, "s.id = t.id", source_alias="s", target_alias="t")
        merging.when_matched_update_all().when_not_matched_insert_all().execute()

    def read() -> None:
        deltalake.DeltaTable(str(source)).to_pyarrow_table()

    write = ("deltalake writes one version", append)
    yield Job("topic to delta", topic_source(), new_table, rows.count, *write)
    yield Job(
        "topic to delta, upsert",
        *(topic_source(), lambda: new_table(key="id"), rows.count, "deltalake merges into an empty table", merge),
    )
    table = {"connector": "delta", "path": str(source)}
    yield Job("delta to topic", table, topic_sink, rows.count, "deltalake reads the table", read)


def iceberg_jobs(place: Place) -> Iterator[Job]:
    """A table as a sink and as a source, in a warehouse whose catalog is in SQLite."""
    rows, warehouse = place.rows, place.folder / "warehouse"
    warehouse.mkdir()
    catalog = _open_catalog(place.folder / "alone")
    _append(catalog, "source", place)

    def new_table() -> dict[str, Any]:
        return {"connector": "iceberg", "catalog": str(warehouse), "table": f"bench.t{uuid.uuid4().hex[:8]}"}

    def append() -> None:
        _append(catalog, f"t{uuid.uuid4().hex[:8]}", place)

    def read() -> None:
        catalog.load_table("bench.source").scan().to_arrow()

    yield Job("topic to iceberg", topic_source(), new_table, rows.count, "pyiceberg writes one snapshot", append)
    source = {"connector": "iceberg", "catalog": str(place.folder / "alone"), "table": "bench.source"}
    yield Job("iceberg to topic", source, topic_sink, rows.count, "pyiceberg reads the table", read)


def _open_catalog(folder: Path) -> Catalog:
    """Return the catalog of a new warehouse, where a flow looks for it."""
    from pyiceberg.catalog import load_catalog

    folder.mkdir()
    properties = {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder}"}
    catalog = load_catalog("tailrace", **properties)
    catalog.create_namespace("bench")
    return catalog


def _append(catalog: Catalog, name: str, place: Place) -> None:
    catalog.create_table(f"bench.{name}", schema=place.rows.table.schema).append(place.rows.table)
