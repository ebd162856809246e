"""A log of keyed records, and its compaction in one go."""

from collections.abc import Sequence

from tailrace.records.batch import BatchHeader, read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.record import Record, read_batches, read_records
from tailrace.storage.compaction import Compaction
from tailrace.storage.compaction_plan import Dirt, measure_dirt, plan_compaction
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig

CONFIG = LogConfig(segment_bytes=1_000_000, retention_ms=-1, cleanup_policy_delete=False, cleanup_policy_compact=True)
MIB = 1 << 20

Pair = tuple[bytes | None, bytes | None]


def keyed_batch(
    *pairs: Pair,
    timestamp: int = 1000,
    compression: Compression = Compression.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    is_transactional: bool = False,
) -> tuple[bytearray, BatchHeader]:
    """A batch of keys and values, a millisecond apart; `producer` is id, epoch and first sequence number."""
    builder = BatchBuilder(
        compression,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=is_transactional,
    )
    for number, (key, value) in enumerate(pairs):
        builder.append(timestamp + number, key, value)
    data = bytearray(builder.build())
    return data, read_header(data)


def append(log: Log, *pairs: Pair, **details: object) -> int:
    return log.append(*keyed_batch(*pairs, **details), 0)  # type: ignore[arg-type]


def end_transaction(
    log: Log, producer_id: int, control_type: ControlType, timestamp_ms: int = 1000, producer_epoch: int = 0
) -> int:
    marker = build_end_transaction_marker(
        EndTransactionMarker(control_type, 0),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp_ms=timestamp_ms,
    )
    data = bytearray(marker)
    return log.append(data, read_header(data), 0)


def dirt_of(log: Log, now_ms: int = 10_000, up_to_offset: int | None = None) -> Dirt:
    return measure_dirt(
        log, log.last_stable_offset(log.log_end_offset) if up_to_offset is None else up_to_offset, now_ms
    )


def compact(log: Log, now_ms: int = 10_000, map_bytes: int = MIB, **details: object) -> Compaction:
    """Compact whatever can be, and check that the segments follow each other without a gap."""
    log.flush()
    plan = plan_compaction(log, dirt_of(log, now_ms), log.log_end_offset, now_ms)
    compaction = Compaction(plan, map_bytes=map_bytes, **details)  # type: ignore[arg-type]
    compaction.build_map()
    for group in compaction.groups():
        cleaned = compaction.clean(group)
        if cleaned is not None:
            old = [source.base_offset for source in group]
            swap = log.swaps.begin(log.segments, old, cleaned, log.config.file_delete_delay_ms)
            assert swap is not None
            swap.run()
            log.swaps.end(swap)
    log.cleaner_offset = compaction.end_offset
    return compaction


def batches(log: Log) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch of the log, read as a consumer does: fetch after fetch."""
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1000, log.log_end_offset, min_one_batch=True)
        if not len(data):
            break
        for position, header in read_batches(data):
            found.append((header, list(read_records(data, position))))
            offset = header.next_offset
    return found


def contents(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of each record."""
    return [
        (record.offset, record.key, record.value)
        for header, records in batches(log)
        if not header.is_control
        for record in records
    ]


def filled(log: Log, pairs: Sequence[Pair], per_segment: int = 2) -> None:
    """Append each pair as a batch, with a roll after some."""
    for number, pair in enumerate(pairs):
        if number and number % per_segment == 0:
            log.roll()
        append(log, pair, timestamp=1000 + number)
    log.roll()
