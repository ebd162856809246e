"""The declaration of Delta tables as sources and sinks of flows."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.lake.endpoint import LakeEndpoint
from tailrace.spark.connector.lake.folder import check_folder, not_a_table
from tailrace.spark.connector.lake.setting import SinkSettings, SourceSettings, check_settings, check_source_settings
from tailrace.spark.connector.s3.store import StoreSettings, check_store
from tailrace.spark.connector.s3.store import check_settings as check_store_settings
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.spark.connector.lake.lake_table import LakeTable


@dataclass(frozen=True, slots=True)
class Delta(LakeEndpoint):
    """A table to read or to write; created by `delta`."""

    path: str
    sink: SinkSettings
    source: SourceSettings
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"delta table {self.path}"

    def store(self, place: FlowPlace) -> StoreSettings:
        """Return where the table is; a relative path begins at the folder of the flow's output."""
        if "://" in self.path:
            return check_store_settings(f"delta({self.path!r})", self.path, dict(self.options)).with_environment()
        folder = os.path.abspath(place.output / self.path)
        return StoreSettings(f"file://{quote(folder)}")

    def open_table(self, place: FlowPlace) -> "LakeTable | None":
        _require_packages()
        from tailrace.spark.connector.delta.delta_table import DeltaLakeTable, open_delta

        settings = self.store(place)
        if settings.url.startswith("file:") and not (_folder(settings) / "_delta_log").is_dir():
            return None
        found = open_delta(settings)
        return None if found is None else DeltaLakeTable(settings, found)

    def check_place(self, place: FlowPlace) -> None:
        from tailrace.spark.connector.delta.delta_table import has_other_files

        settings = self.store(place)
        if settings.url.startswith("file:"):
            check_folder(self, _folder(settings))
        else:
            check_store(settings)
            if has_other_files(settings):
                raise not_a_table(self)

    def create_table(self, place: FlowPlace, columns: "pa.Schema") -> None:
        from deltalake import DeltaTable

        from tailrace.spark.connector.delta.delta_table import delta_scope, storage_options

        self.check_place(place)
        settings = self.store(place)
        keep = self.sink.keep_s
        configuration = {} if keep is None else {"delta.logRetentionDuration": f"interval {int(keep)} seconds"}
        with delta_scope(settings, "create the table"):
            DeltaTable.create(
                settings.url,
                columns,
                partition_by=list(self.sink.partition_by),
                configuration=configuration,
                storage_options=storage_options(settings),
            )


def delta(
    path: str,
    *,
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
    options: Mapping[str, Any] | None = None,
) -> Delta:
    """A Delta table as the source or the sink of a flow.

    `path` is a folder, or the URL of a store such as s3://BUCKET/TABLE, whose `options` are such as endpoint and
    access_key_id; by default they come from the environment, such as AWS_ACCESS_KEY_ID.

    A source reads the rows of the table, and those that later versions add, at most `max_files` files in a batch. A
    version that replaces or deletes rows stops the flow, or is left out with `skip_changes`.

    In a sink with a `key`, a row replaces that with the same key, and rows for which the SQL condition `delete_when` is
    true delete it; without one, or with mode="append", all rows are added. With changes="debezium" the rows are the
    changes of a database in Debezium's envelope, with the columns before, after and op. The columns `exclude` are not
    written.

    The table is created if it is missing, unless `create` is False, divided by the columns `partition_by`, and gets the
    columns that it lacks unless `evolve` is False. Small files are written together every "10 minutes" (`compact`), and
    versions are deleted that are older than `keep`; both can be "never".
    """
    if not isinstance(path, str) or not path.strip():
        raise PipelineError("delta() needs the path of a table")
    place = f"delta({path!r})"
    if options is not None and "://" not in path:
        raise PipelineError(f"{place}: options= is for the URL of a store")
    if "://" in path:
        check_store_settings(place, path, options)
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
    given = tuple((str(name), str(value)) for name, value in (options or {}).items())
    return Delta(path, settings, check_source_settings(place, skip_changes, max_files), given)


def _folder(settings: StoreSettings) -> Path:
    return Path(unquote(urlsplit(settings.url).path))


def _require_packages() -> None:
    try:
        import deltalake  # noqa: F401
        import obstore  # noqa: F401
    except ImportError:
        raise PipelineError("delta() needs the extra [delta]: pip install 'tailrace[delta]'") from None
