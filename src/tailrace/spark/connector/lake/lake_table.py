"""The interface to a table in the driver: its state, its commits, its columns."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from tailrace.spark.connector.lake.note import BatchNote, Noted
from tailrace.spark.connector.lake.table_file import Described, TableFiles


class TableChange(NamedTuple):
    """A version: the files with new rows that it adds, and whether it replaces or deletes rows."""

    version: int
    added: list[Described]
    is_removal: bool = False


class LakeTable(ABC):
    """A table as it was when it was opened or last committed to."""

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """The columns, with plain types."""

    @property
    @abstractmethod
    def partition_by(self) -> tuple[str, ...]:
        """The columns whose values divide the table, as text of the format."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The version of a Delta table, or the id of the snapshot of an Iceberg table."""

    @abstractmethod
    def last_batch(self, flow: str, query_id: str) -> int | None:
        """Return the last batch of a query that the table holds."""

    @abstractmethod
    def list_files(self, bounded: Sequence[str] = ()) -> list[Described]:
        """Return the data files, with the bounds of some columns where they are known."""

    @abstractmethod
    def open_files(self) -> TableFiles:
        """Return what tasks write and read files with."""

    @abstractmethod
    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        """Add columns that may be null."""

    @abstractmethod
    def commit(self, added: Sequence[bytes], removed: Sequence[bytes], note: BatchNote, *, is_merge: bool) -> None:
        """Add and remove files in one transaction with the note of their batch, unless the table holds the batch.

        The files of a merge depend on all rows of the table. Raises `RetriableConnectorError` if another commit has
        changed what this one depends on.
        """

    @abstractmethod
    def commit_compaction(self, added: Sequence[bytes], removed: Sequence[bytes]) -> bool:
        """Replace files by others with the same rows; returns False if another commit was faster."""

    @abstractmethod
    def list_notes(self) -> Iterator[Noted]:
        """Yield the versions that flows have written and that still exist, newest first."""

    @abstractmethod
    def files_at(self, version: int) -> list[Described]:
        """Return the files of a version, always in the same order; raises `ConnectorError` if it has expired."""

    @abstractmethod
    def added_by(self, version: int) -> list[Described]:
        """Return the files with new rows that a version adds, always in the same order."""

    @abstractmethod
    def changes_after(self, version: int, last: int | None = None) -> Iterator[TableChange]:
        """Yield the versions after one up to another, or to the newest; raises `ConnectorError` if one has expired.

        Versions that change no rows, such as compactions, are left out.
        """

    @abstractmethod
    def expire(self, keep_s: float) -> int:
        """Delete versions that are older than this, and files that no other version needs; returns their number."""
