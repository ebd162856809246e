"""The declaration of Iceberg tables as sources and sinks of flows."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.iceberg.catalog import CatalogSettings, check_catalog, check_identifier, iceberg_scope
from tailrace.spark.connector.lake.endpoint import LakeEndpoint
from tailrace.spark.connector.lake.folder import check_folder
from tailrace.spark.connector.lake.setting import SinkSettings, SourceSettings, check_settings, check_source_settings
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.spark.connector.lake.lake_table import LakeTable

WAREHOUSE = "warehouse"
_PROPERTIES = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


@dataclass(frozen=True, slots=True)
class Iceberg(LakeEndpoint):
    """A table to read or to write; created by `iceberg`."""

    table: tuple[str, ...]
    sink: SinkSettings
    source: SourceSettings
    catalog: str | tuple[tuple[str, str], ...] = field(default=WAREHOUSE, repr=False)

    def __str__(self) -> str:
        return f"iceberg table {'.'.join(self.table)}"

    def catalog_settings(self, place: FlowPlace) -> CatalogSettings:
        """Return the catalog; a relative folder begins at that of the flow's output."""
        if isinstance(self.catalog, str):
            return CatalogSettings(Path(os.path.abspath(place.output / self.catalog)))
        return CatalogSettings(None, self.catalog)

    def open_table(self, place: FlowPlace) -> "LakeTable | None":
        _require_packages()
        from pyiceberg.exceptions import NoSuchTableError

        from tailrace.spark.connector.iceberg.iceberg_table import IcebergTable

        settings = self.catalog_settings(place)
        if not settings.is_there:
            return None
        with iceberg_scope(self, "open"):
            try:
                return IcebergTable(settings.open().load_table(self.table))
            except NoSuchTableError:
                return None

    def check_place(self, place: FlowPlace) -> None:
        folder = self.catalog_settings(place).folder
        if folder is not None:
            check_folder(self, folder.joinpath(*self.table))

    def create_table(self, place: FlowPlace, columns: "pa.Schema") -> None:
        from pyiceberg.exceptions import NamespaceAlreadyExistsError
        from pyiceberg.transforms import IdentityTransform

        self.check_place(place)
        settings = self.catalog_settings(place)
        location = None if settings.folder is None else f"file://{settings.folder.joinpath(*self.table)}"
        with iceberg_scope(self, "create the table"):
            catalog = settings.open()
            with suppress(NamespaceAlreadyExistsError):
                catalog.create_namespace(self.table[:-1])
            with catalog.create_table_transaction(
                self.table, columns, location=location, properties=_PROPERTIES
            ) as transaction:
                with transaction.update_spec() as spec:
                    for name in self.sink.partition_by:
                        spec.add_field(name, IdentityTransform(), name)


def iceberg(
    table: str,
    *,
    catalog: str | Mapping[str, Any] = WAREHOUSE,
    mode: str | None = None,
    key: str | Sequence[str] = (),
    delete_when: str | None = None,
    changes: str | None = None,
    exclude: str | Sequence[str] = (),
    partition_by: str | Sequence[str] = (),
    evolve: bool | None = None,
    create: bool | None = None,
    compact: str | None = None,
    keep: str | None = None,
    skip_changes: bool | None = None,
    max_files: int | None = None,
) -> Iceberg:
    """An Iceberg table as the source or the sink of a flow.

    `table` is its name, such as "shop.orders". `catalog` is the folder of a warehouse, which has a catalog in SQLite
    and is created if it is missing, or a mapping of properties as pyiceberg takes them, such as {"type": "rest",
    "uri": "http://localhost:8181"}.

    A source reads the rows of the table, and those that later snapshots add, at most `max_files` files in a batch. A
    snapshot that replaces or deletes rows stops the flow, or is left out with `skip_changes`.

    In a sink with a `key`, a row replaces that with the same key, and rows for which the SQL condition `delete_when` is
    true delete it; without one, or with mode="append", all rows are added. With changes="debezium" the rows are the
    changes of a database in Debezium's envelope, with the columns before, after and op. The columns `exclude` are not
    written.

    The table is created if it is missing, unless `create` is False, divided by the columns `partition_by`, and gets the
    columns that it lacks unless `evolve` is False. Small files are written together every "10 minutes" (`compact`), and
    snapshots are deleted that are older than `keep`; both can be "never".
    """
    place = f"iceberg({table!r})"
    settings = check_settings(
        place,
        mode=mode,
        key=key,
        delete_when=delete_when,
        changes=changes,
        exclude=exclude,
        partition_by=partition_by,
        evolve=evolve,
        create=create,
        compact=compact,
        keep=keep,
    )
    source = check_source_settings(place, skip_changes, max_files)
    return Iceberg(check_identifier(place, table), settings, source, check_catalog(place, catalog))


def _require_packages() -> None:
    try:
        import pyiceberg  # noqa: F401
        import sqlalchemy  # noqa: F401
    except ImportError:
        raise PipelineError("iceberg() needs the extra [iceberg]: pip install 'tailrace[iceberg]'") from None
