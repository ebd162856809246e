"""An Iceberg table in the driver: its state, and its commits."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.manifest import ManifestEntryStatus, ManifestFile
from pyiceberg.table import FileScanTask
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _OverwriteFiles

from tailrace.spark.connector.iceberg.catalog import iceberg_scope
from tailrace.spark.connector.iceberg.data_file import SCRATCH, IcebergFiles, describe, scan_task
from tailrace.spark.connector.lake.bound import bounded_columns, known_bounds
from tailrace.spark.connector.lake.column import plain_schema
from tailrace.spark.connector.lake.lake_table import LakeTable, TableChange
from tailrace.spark.connector.lake.note import BatchNote, Noted, read_note
from tailrace.spark.connector.lake.table_file import Described
from tailrace.spark.error import ConnectorError, RetriableConnectorError

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import NestedField

COMPACTION = "tailrace.compaction"
_LAST_BATCH = "tailrace.last-batch."
_NO_SNAPSHOT = -1
_RETRIES = "commit.retry.num-retries"
_CONFLICTS = (CommitFailedException, ValidationException)
_FOLDERS = ("data", "metadata", SCRATCH)


class IcebergTable(LakeTable):
    """A table as it was when it was opened or last committed to."""

    def __init__(self, table: "Table") -> None:
        self._table = table

    def __str__(self) -> str:
        return f"iceberg table {'.'.join(self._table.name())}"

    @property
    def columns(self) -> pa.Schema:
        return plain_schema(schema_to_pyarrow(self._table.schema(), include_field_ids=False))

    @property
    def partition_by(self) -> tuple[str, ...]:
        schema, names = self._table.schema(), []
        for each in self._table.spec().fields:
            column, transform = str(schema.find_column_name(each.source_id)), str(each.transform)
            names.append(column if transform == "identity" else f"{transform}({column})")
        return tuple(names)

    @property
    def version(self) -> int:
        snapshot = self._table.current_snapshot()
        return _NO_SNAPSHOT if snapshot is None else snapshot.snapshot_id

    def last_batch(self, flow: str, query_id: str) -> int | None:
        text = self._table.metadata.properties.get(_LAST_BATCH + query_id)
        return None if text is None else int(text)

    def list_files(self, bounded: Sequence[str] = ()) -> list[Described]:
        fields = [self._table.schema().find_field(name) for name in bounded_columns(self.columns, bounded)]
        with iceberg_scope(self, "list the files"):
            return [
                describe(task)._replace(bounds=known_bounds((each.name, *_bounds(task.file, each)) for each in fields))
                for task in self._table.scan().plan_files()
            ]

    def open_files(self) -> IcebergFiles:
        properties = tuple((str(name), str(value)) for name, value in self._table.io.properties.items())
        return IcebergFiles(str(self), self.columns, self._table.metadata.model_dump_json(), properties)

    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        with iceberg_scope(self, "add columns"), self._table.update_schema() as update:
            update.union_by_name(pa.schema(columns))

    def commit(self, added: Sequence[bytes], removed: Sequence[bytes], note: BatchNote, *, is_merge: bool) -> None:
        try:
            self._commit(added, removed, note.to_properties(), {_LAST_BATCH + note.query_id: str(note.batch_id)})
        except _CONFLICTS:
            with iceberg_scope(self, "read the table"):
                self._table.refresh()
            last = self.last_batch(note.flow, note.query_id)
            if last is None or last < note.batch_id:
                raise RetriableConnectorError(
                    f"{self} was changed by another writer while a batch was written"
                ) from None

    def commit_compaction(self, added: Sequence[bytes], removed: Sequence[bytes]) -> bool:
        try:
            self._commit(added, removed, {COMPACTION: "true"}, {})
        except _CONFLICTS:
            with iceberg_scope(self, "read the table"):
                self._table.refresh()
            return False
        return True

    def _commit(
        self, added: Sequence[bytes], removed: Sequence[bytes], note: dict[str, str], properties: dict[str, str]
    ) -> None:
        """Commit files and properties in one transaction; raises `CommitFailedException` if another was faster.

        The library would repeat the commit on top of the other one, which may be the same batch.
        """
        self._table.metadata.properties[_RETRIES] = "0"  # of this object, and not of the table
        try:
            with iceberg_scope(self, "commit", _CONFLICTS), self._table.transaction() as transaction:
                with self._producer(transaction, note, has_removed=bool(removed)) as snapshot:
                    for each in added:
                        snapshot.append_data_file(scan_task(each).file)
                    for each in removed:
                        snapshot.delete_data_file(scan_task(each).file)
                if properties:
                    transaction.set_properties(properties)
        finally:
            self._table.metadata.properties.pop(_RETRIES, None)

    def _producer(self, transaction: "Transaction", note: dict[str, str], *, has_removed: bool) -> Any:
        if not has_removed:
            return transaction.update_snapshot(snapshot_properties=note).merge_append()
        return _Overwrite(Operation.OVERWRITE, transaction, self._table.io, snapshot_properties=note)

    def list_notes(self) -> Iterator[Noted]:
        snapshots = {each.snapshot_id: each for each in self._table.metadata.snapshots}
        snapshot = self._table.current_snapshot()
        while snapshot is not None:
            note = None if snapshot.summary is None else read_note(snapshot.summary.additional_properties)
            if note is not None:
                yield Noted(snapshot.snapshot_id, snapshot.timestamp_ms, note)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else snapshots.get(parent)

    def files_at(self, version: int) -> list[Described]:
        if version == _NO_SNAPSHOT:
            return []
        if self._table.snapshot_by_id(version) is None:
            raise self._expired(version)
        with iceberg_scope(self, f"list the files of snapshot {version}"):
            return sorted(map(describe, self._table.scan(snapshot_id=version).plan_files()), key=_path)

    def added_by(self, version: int) -> list[Described]:
        snapshot = self._table.snapshot_by_id(version)
        if snapshot is None:
            raise self._expired(version)
        return self._change(snapshot).added

    def changes_after(self, version: int, last: int | None = None) -> Iterator[TableChange]:
        snapshots = {each.snapshot_id: each for each in self._table.metadata.snapshots}
        found, current = [], self.version if last is None else last
        while current not in (version, _NO_SNAPSHOT):
            if current not in snapshots:
                raise self._expired(current)
            found.append(snapshots[current])
            current = snapshots[current].parent_snapshot_id or _NO_SNAPSHOT
        if current != version:
            raise self._expired(version)
        for snapshot in reversed(found):
            if not _is_compaction(snapshot):
                yield self._change(snapshot)

    def _change(self, snapshot: "Snapshot") -> TableChange:
        """Return the files that a snapshot has added, and whether it has removed others."""
        added, is_removal, io = [], False, self._table.io
        with iceberg_scope(self, f"read snapshot {snapshot.snapshot_id}"):
            for manifest in snapshot.manifests(io):
                for entry in manifest.fetch_manifest_entry(io, discard_deleted=False):
                    if entry.snapshot_id == snapshot.snapshot_id and entry.status == ManifestEntryStatus.ADDED:
                        added.append(describe(FileScanTask(entry.data_file)))
                    elif entry.snapshot_id == snapshot.snapshot_id and entry.status == ManifestEntryStatus.DELETED:
                        is_removal = True
        return TableChange(snapshot.snapshot_id, sorted(added, key=_path), is_removal)

    def _expired(self, version: int) -> ConnectorError:
        return ConnectorError(f"{self}: snapshot {version} has expired before it was read; reset the flow")

    def expire(self, keep_s: float) -> int:
        cutoff = datetime.now(UTC) - timedelta(seconds=keep_s)
        with iceberg_scope(self, "expire snapshots"):
            heads = {each.snapshot_id for each in self._table.metadata.refs.values()}
            old_ms = cutoff.timestamp() * 1000
            if any(e.timestamp_ms < old_ms and e.snapshot_id not in heads for e in self._table.metadata.snapshots):
                self._table.maintenance.expire_snapshots().older_than(cutoff).commit()
                self._table.refresh()
            return self._delete_unneeded(self._needed(), cutoff)

    def _needed(self) -> set[str]:
        """Return the places of all files that a snapshot needs."""
        metadata, io = self._table.metadata, self._table.io
        needed = {self._table.metadata_location, *(each.metadata_file for each in metadata.metadata_log)}
        needed |= {each.statistics_path for each in metadata.statistics}
        manifests = {}
        for snapshot in metadata.snapshots:
            needed.add(snapshot.manifest_list)
            manifests.update({each.manifest_path: each for each in snapshot.manifests(io)})
        for path, manifest in manifests.items():
            needed.add(path)
            needed |= {each.data_file.file_path for each in manifest.fetch_manifest_entry(io, discard_deleted=True)}
        return needed

    def _delete_unneeded(self, needed: set[str], cutoff: datetime) -> int:
        """Delete the files below the table's folder that no snapshot needs, unless they are new."""
        io = self._table.io
        if not isinstance(io, PyArrowFileIO):
            return 0
        scheme, netloc, root = io.parse_location(self._table.location())
        store = io.fs_by_scheme(scheme, netloc)
        kept = {io.parse_location(path)[2] for path in needed}
        found = [
            each.path
            for folder in _FOLDERS
            for each in store.get_file_info(fs.FileSelector(f"{root}/{folder}", allow_not_found=True, recursive=True))
            if each.type == fs.FileType.File and each.mtime < cutoff and each.path not in kept
        ]
        for path in found:
            store.delete_file(path)
        return len(found)


class _Overwrite(_OverwriteFiles):
    """A snapshot that adds and removes files, and leaves out manifests that only say what older ones have removed.

    The library keeps these for ever, and reads all of them in each commit.
    """

    def _existing_manifests(self) -> list[ManifestFile]:
        return [each for each in super()._existing_manifests() if each.has_added_files() or each.has_existing_files()]


def _is_compaction(snapshot: "Snapshot") -> bool:
    """Return whether a snapshot has the rows of the one before it."""
    summary = snapshot.summary
    return summary is not None and (
        summary.additional_properties.get(COMPACTION) == "true" or summary.operation.value == "replace"
    )


def _bounds(file: "DataFile", column: "NestedField") -> tuple[Any, Any]:
    """Return the least and the greatest value of a column in a file; None where a bound is not known."""
    kind: Any = column.field_type
    low, high = ((side or {}).get(column.field_id) for side in (file.lower_bounds, file.upper_bounds))
    return None if low is None else from_bytes(kind, low), None if high is None else from_bytes(kind, high)


def _path(described: Described) -> str:
    return str(scan_task(described.description).file.file_path)
