"""Whatever is written and however often it is compacted, a reader builds the same table."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.unit.storage.compacting import append, compact, dirt_of, end_transaction
from tests.unit.storage.workbench import DIRECTORY, Workbench

from tailrace.records.compression import Compression
from tailrace.records.control import ControlType
from tailrace.records.record import read_batches, read_records
from tailrace.records.transaction_filter import TransactionFilter
from tailrace.storage.folder_check import check_partition
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig

DELETE_RETENTION_MS = 50
CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=150,
    retention_ms=-1,
    cleanup_policy_compact=True,
    delete_retention_ms=DELETE_RETENTION_MS,
    producer_id_expiration_ms=2**60,
)
PRODUCERS = (5, 6)

Pair: TypeAlias = tuple[bytes, bytes | None]

pairs = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.one_of(st.none(), st.binary(max_size=30))),
    min_size=1,
    max_size=4,
)


@dataclass
class Written:
    """Everything that was ever appended, by offset, and the offsets of aborted transactions."""

    records: dict[int, Pair] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    open_offsets: dict[int, list[int]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    def table(self, end_offset: int) -> dict[bytes, bytes]:
        return table_of((offset, *pair) for offset, pair in sorted(self.records.items()) if offset < end_offset)

    def newest(self, end_offset: int) -> set[int]:
        return set({key: offset for offset, (key, _) in sorted(self.records.items()) if offset < end_offset}.values())


def table_of(records: Iterable[tuple[int, bytes, bytes | None]]) -> dict[bytes, bytes]:
    table: dict[bytes, bytes] = {}
    for _, key, value in records:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table


def committed(log: Log, end_offset: int) -> list[tuple[int, bytes, bytes | None]]:
    """What a reader of committed records gets, fetch after fetch."""
    found: list[tuple[int, bytes, bytes | None]] = []
    offset = log.log_start_offset
    while offset < end_offset:
        data = log.read(offset, 300, end_offset, min_one_batch=True)
        batches = list(read_batches(data))
        assert batches, f"nothing at {offset}"
        transactions = TransactionFilter(log.aborted_transactions(offset, batches[-1][1].next_offset))
        for position, header in batches:
            for record in () if transactions.hides(data, position, header) else read_records(data, position):
                assert record.key is not None
                found.append((record.offset, record.key, record.value))
            offset = header.next_offset
    return found


class Compacted(RuleBasedStateMachine):
    """A log that is written to, compacted and opened again, next to everything that was ever written."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Workbench()
        self.log = self.bench.open(CONFIG)
        self.written = Written()
        self.now_ms = 1_000_000

    @rule(batch=pairs, compression=st.sampled_from(Compression), is_idempotent=st.booleans())
    def append(self, batch: list[Pair], compression: Compression, is_idempotent: bool) -> None:
        producer = self.next_producer(4, len(batch)) if is_idempotent else (-1, -1, -1)
        base_offset = append(self.log, *batch, compression=compression, producer=producer, timestamp=self.now_ms)
        self.written.records |= dict(enumerate(batch, base_offset))

    def next_producer(self, producer_id: int, count: int) -> tuple[int, int, int]:
        sequence = self.written.sequences.get(producer_id, 0)
        self.written.sequences[producer_id] = sequence + count
        return producer_id, self.written.epochs.setdefault(producer_id, 0), sequence

    @rule(batch=pairs, producer_id=st.sampled_from(PRODUCERS))
    def append_in_transaction(self, batch: list[Pair], producer_id: int) -> None:
        producer = self.next_producer(producer_id, len(batch))
        base_offset = append(self.log, *batch, producer=producer, is_transactional=True, timestamp=self.now_ms)
        self.written.records |= dict(enumerate(batch, base_offset))
        self.written.open_offsets.setdefault(producer_id, []).extend(range(base_offset, base_offset + len(batch)))

    @rule(
        producer_id=st.sampled_from(PRODUCERS),
        control_type=st.sampled_from([ControlType.ABORT, ControlType.COMMIT]),
        raises_epoch=st.booleans(),
    )
    def end_transaction(self, producer_id: int, control_type: ControlType, raises_epoch: bool) -> None:
        epoch = self.written.epochs.get(producer_id, 0)
        if raises_epoch:  # KIP-890: the next transaction begins to count anew
            epoch += 1
            self.written.sequences[producer_id] = 0
        self.written.epochs[producer_id] = epoch
        end_transaction(self.log, producer_id, control_type, self.now_ms, epoch)
        offsets = self.written.open_offsets.pop(producer_id, [])
        if control_type is ControlType.ABORT:
            for offset in offsets:
                del self.written.records[offset]

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(slots=st.sampled_from([3, 5, 1000]), wait_ms=st.sampled_from([0, 20, DELETE_RETENTION_MS]))
    def compact(self, slots: int, wait_ms: int) -> None:
        self.now_ms += wait_ms
        self.log.flush()
        if not dirt_of(self.log, self.now_ms).dirty_bytes:
            return
        slots = max(slots, 6)  # the keys of one batch find room
        end_offset = compact(self.log, self.now_ms, map_bytes=24 * slots, load_factor=1.0).end_offset
        newest = self.written.newest(end_offset)
        found = {offset for offset, *_ in committed(self.log, min(end_offset, self.stable_offset))}
        assert found <= newest
        # Only tombstones whose time is over may be gone.
        assert all(self.written.records[offset][1] is None for offset in newest - found)
        self.check_files()

    @rule(is_clean=st.booleans())
    def reopen(self, is_clean: bool) -> None:
        cleaner_offset = self.log.cleaner_offset
        if is_clean:
            self.log.close()
            recovery_point = self.log.recovery_point
        else:
            recovery_point = 0
            self.bench.fs.kill()
        self.log = self.bench.open(CONFIG, recovery_point=recovery_point, is_clean=is_clean)
        self.log.cleaner_offset = cleaner_offset
        self.check_files()

    def check_files(self) -> None:
        """A checker that knows nothing of compaction finds nothing wrong with what it leaves."""
        assert check_partition(self.bench.fs, DIRECTORY, lambda: None, lambda *_: None) == []

    @property
    def stable_offset(self) -> int:
        return self.log.last_stable_offset(self.log.log_end_offset)

    @invariant()
    def the_table_is_the_same(self) -> None:
        end_offset = self.stable_offset
        records = committed(self.log, end_offset)
        assert [offset for offset, *_ in records] == sorted({offset for offset, *_ in records})
        assert all(self.written.records[offset] == (key, value) for offset, key, value in records)
        assert table_of(records) == self.written.table(end_offset)

    @invariant()
    def producers_are_remembered(self) -> None:
        for producer_id, sequence in self.written.sequences.items():
            assert self.log.producers.entries[producer_id].last_sequence == sequence - 1

    @invariant()
    def older_epochs_stay_fenced(self) -> None:
        for producer_id, epoch in self.written.epochs.items():
            assert self.log.producers.entries[producer_id].producer_epoch == epoch


Compacted.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestCompactedLog = Compacted.TestCase
