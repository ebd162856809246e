"""A log on a file system in memory, and the few steps that every storage test takes."""

from typing import Generic, TypeAlias, TypeVar

from tests.unit.sample import ManualClock

from tailrace.records.batch import BatchHeader, read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.record import Record, read_batches, read_records
from tailrace.storage.folder import Folder
from tailrace.storage.fs import FileSystem, RealFileSystem
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.memory_fs import MemoryFileSystem
from tailrace.storage.recovery import open_log

F = TypeVar("F", bound=FileSystem)

DIRECTORY = "/data/t-0"
START_MS = 1_000_000


class FolderBench(Generic[F]):
    """A partition's folder on a file system."""

    def __init__(self, fs: F, root: str) -> None:
        self.fs = fs
        self.root = root
        self.directory = f"{root}/t-0"
        self.fs.make_directory(self.directory)
        self.fs.sync_directory("/")
        self.fs.sync_directory(root)
        self.clock = ManualClock()
        self.clock.time_ms = START_MS
        self.folder = Folder(self.fs, root)

    def open(
        self,
        config: LogConfig | None = None,
        *,
        log_start_offset: int = 0,
        recovery_point: int | None = None,
        cleaner_offset: int | None = None,
        is_clean: bool = False,
    ) -> Log:
        self.folder = Folder(self.fs, self.root)
        return open_log(
            self.folder,
            self.directory,
            self.clock,
            config or LogConfig(),
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            cleaner_offset=cleaner_offset,
            is_clean=is_clean,
        )

    def batch(
        self,
        *values: bytes,
        timestamps: tuple[int, ...] = (),
        compression: Compression = Compression.NONE,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
    ) -> tuple[bytearray, BatchHeader]:
        builder = BatchBuilder(
            compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
        for number, value in enumerate(values):
            builder.append(timestamps[number] if timestamps else self.clock.time_ms, None, value)
        data = bytearray(builder.build())
        return data, read_header(data)

    def append(self, log: Log, *values: bytes, leader_epoch: int = 0, timestamps: tuple[int, ...] = ()) -> int:
        data, header = self.batch(*values, timestamps=timestamps)
        return log.append(data, header, leader_epoch)

    def produce(self, log: Log, sequence: int, count: int = 1, producer_id: int = 7, producer_epoch: int = 0) -> int:
        """Append a batch of an idempotent producer without checking it."""
        values = [b"v"] * count
        data, header = self.batch(
            *values, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence
        )
        return log.append(data, header, max(log.latest_epoch, 0))

    def transact(self, log: Log, producer_id: int, *values: bytes, epoch: int = 0) -> int:
        """Append a batch of a transaction."""
        data, header = self.batch(
            *values, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True
        )
        return log.append(data, header, 0)

    def end(self, log: Log, producer_id: int, control_type: ControlType = ControlType.ABORT, epoch: int = 0) -> int:
        """Append the marker that ends a transaction."""
        marker = EndTransactionMarker(control_type, coordinator_epoch=0)
        data = bytearray(
            build_end_transaction_marker(
                marker, producer_id=producer_id, producer_epoch=epoch, timestamp_ms=self.clock.time_ms
            )
        )
        return log.append(data, read_header(data), 0)

    def header(self, sequence: int, count: int = 1, producer_id: int = 7, producer_epoch: int = 0) -> BatchHeader:
        values = [b"v"] * count
        return self.batch(*values, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence)[1]

    def records(self, log: Log) -> list[Record]:
        """Everything in the log, read as a consumer does: fetch after fetch."""
        records: list[Record] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, 1000, log.log_end_offset, min_one_batch=True)
            batches = list(read_batches(data))
            assert batches, f"nothing at {offset}"
            for position, header in batches:
                records += [record for record in read_records(data, position) if record.offset >= offset]
                offset = header.next_offset
        return records

    def values(self, log: Log) -> list[tuple[int, bytes | None]]:
        return [(record.offset, record.value) for record in self.records(log)]

    def files(self, suffix: str = "") -> list[str]:
        return sorted(entry.name for entry in self.fs.list_directory(self.directory) if entry.name.endswith(suffix))

    def contents(self, name: str) -> bytes:
        data = self.fs.read_file(f"{self.directory}/{name}")
        assert data is not None
        return data


AnyBench: TypeAlias = FolderBench[MemoryFileSystem] | FolderBench[RealFileSystem]


class Workbench(FolderBench[MemoryFileSystem]):
    """A partition's folder in memory."""

    def __init__(self, fs: MemoryFileSystem | None = None) -> None:
        super().__init__(fs or MemoryFileSystem(), "/data")
