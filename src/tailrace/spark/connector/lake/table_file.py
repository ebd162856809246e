"""The interface to the files of a table: how the tasks of a flow write and read them.

Nothing here needs Spark. A description of a file is bytes that only the format understands; tasks return those of the
files that they have written, and the driver commits them.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from tailrace.base.limits import MIB
from tailrace.spark.connector.lake.bound import Bounds

TARGET_BYTES = 128 * MIB
"""A file that has grown to this size is finished, and another one begun."""

_ROW_GROUP_BYTES = 16 * MIB
"""Rows that are held in memory, and written together."""


class Described(NamedTuple):
    """A data file: what the format says about it, its bytes, and its rows."""

    description: bytes
    size_bytes: int
    row_count: int
    partition: Hashable = None
    bounds: Bounds | None = None


class OpenFile(ABC):
    """A file that is being written."""

    partition: Any

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """The bytes that have been written so far."""

    @abstractmethod
    def write(self, rows: pa.Table) -> None:
        """Write rows, all of the partition of this file."""

    @abstractmethod
    def finish(self) -> Described:
        """Close the file. It becomes part of the table when the driver commits its description."""


class TableFiles(ABC):
    """The files of one version of a table; sent to tasks."""

    target_bytes: ClassVar[int] = TARGET_BYTES
    columns: pa.Schema
    """The columns of the table, with plain types."""

    @abstractmethod
    def split(self, rows: pa.Table) -> Iterator[tuple[Any, pa.Table]]:
        """Yield rows by the partition of the table to which they belong."""

    @abstractmethod
    def start(self, name: str, partition: Any) -> OpenFile:
        """Begin a file; no other attempt to write rows uses the name."""

    @abstractmethod
    def read(self, description: bytes, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield some columns of a file, in pieces of a bounded size and always in the same order."""

    @abstractmethod
    def put_scratch(self, name: str, content: bytes) -> None:
        """Write a small file that is not part of the table."""

    @abstractmethod
    def get_scratch(self, name: str) -> bytes:
        """Read such a file."""

    @abstractmethod
    def delete_scratch(self, names: Sequence[str]) -> None:
        """Delete such files."""


def write_files(files: TableFiles, pieces: Iterable[pa.Table], stem: str) -> Iterator[Described]:
    """Write rows to as many files as needed, and yield each one when it is finished.

    One file is open at a time: rows that are sorted by their partition make few files.
    """
    number = 0
    current: OpenFile | None = None
    for rows in pieces:
        for partition, part in files.split(rows):
            if current is not None and (current.partition != partition or current.size_bytes >= files.target_bytes):
                yield current.finish()
                current = None
            if current is None:
                current = files.start(f"{stem}-{number:03d}", partition)
                number += 1
            current.write(part)
    if current is not None:
        yield current.finish()


def group_rows(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Combine rows to pieces of some megabytes."""
    waiting: list[pa.Table] = []
    size = 0
    for piece in pieces:
        if not piece.num_rows:
            continue
        waiting.append(piece)
        size += piece.nbytes
        if size >= _ROW_GROUP_BYTES:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, size = [], 0
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()
