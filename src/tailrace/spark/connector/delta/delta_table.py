"""A Delta table in the driver: its state, which the library deltalake reads, and its commits."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from tailrace.spark.connector.delta.data_file import SCRATCH, DeltaFiles, write_value
from tailrace.spark.connector.delta.log import FOLDER, commit_actions, read_commits, write_commit
from tailrace.spark.connector.lake.bound import bounded_columns, known_bounds
from tailrace.spark.connector.lake.column import plain_schema
from tailrace.spark.connector.lake.lake_table import LakeTable, TableChange
from tailrace.spark.connector.lake.note import BatchNote, Noted, read_note
from tailrace.spark.connector.lake.table_file import Described
from tailrace.spark.connector.s3.store import StoreSettings, open_store, store_scope
from tailrace.spark.error import ConnectorError, PipelineError, RetriableConnectorError

if TYPE_CHECKING:
    from deltalake import DeltaTable

_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz"})
"""The features of tables that this writer follows."""

_PLAIN_VERSION = 2  # the last version of the protocol without constraints; 7 lists its features
_LISTED_VERSION = 7
_CHECKPOINT_INTERVAL = 20
_TRIES = 20


class DeltaLakeTable(LakeTable):
    """A table as it was when it was opened or last committed to."""

    def __init__(self, settings: StoreSettings, table: "DeltaTable") -> None:
        self._settings = settings
        self._store = open_store(settings)
        self._table = table
        self._check_protocol()

    def __str__(self) -> str:
        return f"delta table {self._settings}"

    def _check_protocol(self) -> None:
        """Raise `PipelineError` if the table has rules that this writer does not know."""
        protocol, metadata = self._table.protocol(), self._table.metadata()
        version, features = protocol.min_writer_version, set(protocol.writer_features or ())
        if _PLAIN_VERSION < version < _LISTED_VERSION or version > _LISTED_VERSION:
            raise PipelineError(f"{self} needs writers of protocol version {version}, which is not supported")
        if unknown := sorted(features - _FEATURES):
            raise PipelineError(f"{self} has the feature {unknown[0]}, which is not supported")
        if "delta.invariants" in self._table.schema().to_json():
            raise PipelineError(f"{self} has conditions on columns, which are not supported")
        if rules := [name for name in metadata.configuration if name.startswith("delta.constraints.")]:
            raise PipelineError(f"{self} has the constraint {rules[0]}, which is not supported")

    @property
    def columns(self) -> pa.Schema:
        return plain_schema(pa.schema(self._table.schema()))

    @property
    def partition_by(self) -> tuple[str, ...]:
        return tuple(self._table.metadata().partition_columns)

    @property
    def version(self) -> int:
        return self._table.version()

    def last_batch(self, flow: str, query_id: str) -> int | None:
        return self._table.transaction_version(_app_id(flow, query_id))

    def list_files(self, bounded: Sequence[str] = ()) -> list[Described]:
        rows = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        names = bounded_columns(self.columns, bounded)
        return [self._described(row, names) for row in rows]

    def _described(self, row: Mapping[str, Any], bounded: Sequence[str]) -> Described:
        values = {name: write_value(row.get(f"partition.{name}")) for name in self.partition_by}
        described = {"path": row["path"], "partitionValues": values, "size": row["size_bytes"]}
        count = row.get("num_records") or 0
        bounds = known_bounds(
            (name, *(row.get(f"partition.{name}", row.get(f"{side}.{name}")) for side in ("min", "max")))
            for name in bounded
        )
        return Described(json.dumps(described).encode(), row["size_bytes"], count, tuple(values.values()), bounds)

    def open_files(self) -> DeltaFiles:
        return DeltaFiles(self._settings, self.columns, self.partition_by)

    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        from deltalake import Schema

        with delta_scope(self._settings, "add columns"):
            self._table.alter.add_columns(Schema.from_arrow(pa.schema(columns)).fields)

    def commit(self, added: Sequence[bytes], removed: Sequence[bytes], note: BatchNote, *, is_merge: bool) -> None:
        if removed and self._table.metadata().configuration.get("delta.appendOnly") == "true":
            raise ConnectorError(f"{self} takes only new rows (delta.appendOnly), and a row is replaced or deleted")
        app_id = _app_id(note.flow, note.query_id)
        new, old = _parsed(added), _parsed(removed)
        operation = "MERGE" if is_merge else "WRITE"
        txn = (app_id, note.batch_id)
        actions = commit_actions(new, old, operation=operation, info=note.to_properties(), txn=txn, is_change=True)
        form = self._form()
        for _ in range(_TRIES):
            if self._write(actions):
                return
            last = self._table.transaction_version(app_id)
            if last is not None and last >= note.batch_id:
                return
            if is_merge or self._form() != form:
                break  # the other commit may have rows with the keys of this one, or other columns
        raise RetriableConnectorError(f"{self} was changed by another writer while a batch was written")

    def commit_compaction(self, added: Sequence[bytes], removed: Sequence[bytes]) -> bool:
        new, old = _parsed(added), _parsed(removed)
        actions = commit_actions(new, old, operation="OPTIMIZE", info={}, txn=None, is_change=False)
        form = self._form()
        for _ in range(_TRIES):
            if self._write(actions):
                return True
            there = {json.loads(each.description)["path"] for each in self.list_files()}
            if self._form() != form or any(each["path"] not in there for each in old):
                return False
        return False

    def _write(self, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Write the next version, and read it or what another writer has committed in its place."""
        is_written = write_commit(self._settings, self._store, self.version + 1, actions)
        with delta_scope(self._settings, "read the log"):
            self._table.update_incremental()
        if is_written and self.version % _CHECKPOINT_INTERVAL == 0:
            with delta_scope(self._settings, "write a checkpoint"):
                self._table.create_checkpoint()
        return is_written

    def _form(self) -> tuple[str, ...]:
        return (str(self._table.metadata().id), self._table.schema().to_json(), *self.partition_by)

    def list_notes(self) -> Iterator[Noted]:
        for version, actions in read_commits(self._settings, self._store, self.version):
            info = _commit_info(actions)
            note = read_note(info)
            if note is not None:
                yield Noted(version, int(info.get("timestamp", 0)), note)

    def files_at(self, version: int) -> list[Described]:
        found = open_delta(self._settings, version)
        if found is None:
            raise self._expired(version)
        return sorted(DeltaLakeTable(self._settings, found).list_files())

    def added_by(self, version: int) -> list[Described]:
        for found, actions in read_commits(self._settings, self._store, version):
            if found == version:
                return self._change(version, actions).added
        raise self._expired(version)

    def changes_after(self, version: int, last: int | None = None) -> Iterator[TableChange]:
        newest, changes = self.version if last is None else last, []
        for number, actions in read_commits(self._settings, self._store, newest):
            if number <= version:
                break
            changes.append(self._change(number, actions))
        if newest > version and (not changes or changes[-1].version != version + 1):
            raise self._expired(version + 1)
        yield from (each for each in reversed(changes) if each.added or each.is_removal)

    def _change(self, version: int, actions: Sequence[Mapping[str, Any]]) -> TableChange:
        added = [each["add"] for each in actions if "add" in each and each["add"]["dataChange"]]
        is_removal = any("remove" in each and each["remove"]["dataChange"] for each in actions)
        described = [
            Described(json.dumps(each).encode(), each["size"], 0, tuple(each["partitionValues"].values()))
            for each in added
        ]
        return TableChange(version, sorted(described), is_removal)

    def _expired(self, version: int) -> ConnectorError:
        return ConnectorError(f"{self}: version {version} has expired before it was read; reset the flow")

    def expire(self, keep_s: float) -> int:
        import obstore

        cutoff_ms = int((time.time() - keep_s) * 1000)
        needed = {json.loads(each.description)["path"] for each in self.list_files()}
        for _, actions in read_commits(self._settings, self._store, self.version):
            if int(_commit_info(actions).get("timestamp", 0)) < cutoff_ms:
                break
            needed |= {each["remove"]["path"] for each in actions if "remove" in each}
        with store_scope(self._settings, "delete files"):
            found = [
                each["path"]
                for chunk in obstore.list(self._store)
                for each in chunk
                if each["last_modified"].timestamp() * 1000 < cutoff_ms and _may_delete(each["path"])
            ]
            unneeded = sorted(set(found) - needed - {unquote(path) for path in needed})
            if unneeded:
                obstore.delete(self._store, unneeded)
        with delta_scope(self._settings, "expire the log"):
            self._table.create_checkpoint()
            self._table.cleanup_metadata()
        return len(unneeded)


def open_delta(settings: StoreSettings, version: int | None = None) -> "DeltaTable | None":
    """Return the table at a place; None if there is no log of commits."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    with delta_scope(settings, "open"):
        try:
            return DeltaTable(settings.url, version, storage_options=storage_options(settings))
        except TableNotFoundError:
            return None


def storage_options(settings: StoreSettings) -> dict[str, str]:
    """Return the options of a store as the library takes them."""
    options = dict(settings.config)
    if any(text.startswith("http://") for text in options.values()):
        options.setdefault("allow_http", "true")
    return options


@contextmanager
def delta_scope(settings: StoreSettings, what: str) -> Iterator[None]:
    """Raise `RetriableConnectorError` if the store is away, and `ConnectorError` for all other errors."""
    from deltalake.exceptions import DeltaError

    with store_scope(settings, what):
        try:
            yield
        except DeltaError as error:
            raise OSError(str(error)) from None


def has_other_files(settings: StoreSettings) -> bool:
    """Return whether there are files at the place of a table that has no log."""
    import obstore

    with store_scope(settings, "list"):
        chunk = next(iter(obstore.list(open_store(settings), chunk_size=1)), None)
    return bool(chunk)


def _parsed(descriptions: Sequence[bytes]) -> list[dict[str, Any]]:
    return [json.loads(each) for each in descriptions]


def _app_id(flow: str, query_id: str) -> str:
    return f"tailrace-{flow}-{query_id}"


def _commit_info(actions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((each["commitInfo"] for each in actions if "commitInfo" in each), {})


def _may_delete(path: str) -> bool:
    """Return whether a file is of data or scratch, and no part of the log or of another program."""
    if path.startswith(f"{SCRATCH}/"):
        return True
    parts = path.split("/")
    return path.endswith(".parquet") and parts[0] != FOLDER and not any(part[0] in "._" for part in parts)
