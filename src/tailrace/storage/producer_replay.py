"""The rebuilding of producer state from the newest snapshot and the batches after it."""

import logging
from collections import deque
from collections.abc import Iterator, Sequence

from tailrace.base.limits import RECALL_BYTES_MAX
from tailrace.protocol.errors import ApiError
from tailrace.records.batch import NO_TIMESTAMP, BatchHeader
from tailrace.storage.fs import FileSystem
from tailrace.storage.producer_snapshot import load_newest_snapshot
from tailrace.storage.producer_state import REMEMBERED_BATCH_COUNT, ProducerBatch, ProducerState
from tailrace.storage.segment.segment import Segment
from tailrace.storage.transaction_index import TransactionIndex

logger = logging.getLogger(__name__)


def rebuild_producers(
    fs: FileSystem,
    directory: str,
    producers: ProducerState,
    segments: Sequence[Segment],
    *,
    end_offset: int,
    now_ms: int,
    snapshots: Sequence[int] | None = None,
) -> None:
    """Set `producers` to the state after the batches below `end_offset`, reading as few headers as possible."""
    rebuilt = ProducerState(producers.expiration_ms)
    # A snapshot from before the first segment may belong to a log that was deleted.
    start_offset = segments[0].base_offset if segments else end_offset
    offset = load_newest_snapshot(
        fs, directory, rebuilt, first=start_offset, last=end_offset, now_ms=now_ms, offsets=snapshots
    )
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        if offset < following and segment.base_offset < end_offset:
            try:
                replay_segment(rebuilt, segment, offset, end_offset, now_ms=now_ms)
            except ApiError as error:
                # Corrupt data below the recovery point is reported to readers; it must not stop the start.
                logger.warning("producer state is incomplete: %s", error.message)
    # A marker in the log may not be replicated yet, even if a snapshot covers the transaction that it ended.
    ended = {transaction for transaction in producers.ended if transaction.marker_offset < end_offset}
    producers.restore(rebuilt.entries.values(), ended.union(rebuilt.ended))


def replay_segment(
    producers: ProducerState,
    segment: Segment,
    offset: int,
    end_offset: int,
    aborted: TransactionIndex | None = None,
    *,
    now_ms: int = NO_TIMESTAMP,
) -> None:
    """Replay the batches of a segment in [offset, end_offset), and append the aborted transactions to `aborted`."""
    for position, header in segment.headers_from(offset):
        if header.base_offset >= end_offset:
            return
        if header.producer_id >= 0 and header.base_offset >= offset:
            batch = segment.file.read_at(position, header.size_bytes) if header.is_control else b""
            transaction = producers.replay(header, header.base_offset, batch, now_ms)
            if transaction is not None and aborted is not None:
                aborted.append(transaction)


def recall_batches(producers: ProducerState, segments: Sequence[Segment]) -> bool:
    """Read the batches that snapshots leave out from the log; return False if no producer needs that.

    A snapshot has only the last batch of a producer, which may send five before it gets the first reply. If the
    broker restarts in between, Kafka rejects the retries of the other four as out of order, and the producer sends
    them with another epoch: then they are in the log twice.
    """
    partial = {entry.producer_id: entry for entry in producers.entries.values() if entry.is_partial}
    found: dict[int, list[ProducerBatch]] = {producer_id: [] for producer_id in partial}
    for header in _tail_headers(segments) if partial else ():
        entry = partial.get(header.producer_id)
        if entry is None or header.is_control or header.producer_epoch != entry.producer_epoch:
            continue
        if header.base_offset < entry.batches[0].base_offset:
            place = (header.base_offset, header.last_offset, header.max_timestamp)
            found[header.producer_id].append(ProducerBatch(header.base_sequence, header.last_sequence, *place))
    for producer_id, entry in partial.items():
        batches = [*found[producer_id], *entry.batches]
        entry.batches = deque(batches[-REMEMBERED_BATCH_COUNT:], maxlen=REMEMBERED_BATCH_COUNT)
        entry.is_partial = False
    return bool(partial)


def _tail_headers(segments: Sequence[Segment]) -> Iterator[BatchHeader]:
    """Yield the headers of the last few megabytes of a log, up to the first unreadable one."""
    starts: list[tuple[Segment, int]] = []
    room_bytes = RECALL_BYTES_MAX
    for segment in reversed(segments):
        above = segment.offset_above(segment.size_bytes - room_bytes) if segment.size_bytes > room_bytes else None
        starts.append((segment, segment.base_offset if above is None else above))
        room_bytes -= segment.size_bytes
        if room_bytes <= 0:
            break
    for segment, offset in reversed(starts):
        try:
            yield from (header for _, header in segment.headers_from(offset))
        except ApiError as error:
            logger.warning("producer state is incomplete: %s", error.message)
