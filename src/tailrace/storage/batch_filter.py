"""The filter that decides which records and batches survive compaction."""

from collections.abc import Mapping
from typing import NamedTuple

from tailrace.base.sentinel import INT64_MAX
from tailrace.records.batch import BatchHeader, Buffer
from tailrace.records.offset_map import KeptRecords, KeyMap
from tailrace.records.rewrite import empty_batch, open_body, rewrite_batch
from tailrace.storage.producer_state import ProducerState
from tailrace.storage.transaction_cleaning import TransactionCleaning


class LastBatch(NamedTuple):
    """The last batch of an active producer, which compaction keeps so that the producer state can be rebuilt."""

    last_offset: int | None  # None if the producer has written only a marker
    producer_epoch: int


def last_batches(producers: ProducerState) -> dict[int, LastBatch]:
    """Return the last batch of each producer in the producer state."""
    return {
        entry.producer_id: LastBatch(entry.batches[-1].last_offset if entry.batches else None, entry.producer_epoch)
        for entry in producers.entries.values()
    }


class BatchFilter:
    """Filters the batches of one log, in offset order."""

    def __init__(
        self,
        keys: KeyMap,
        transactions: TransactionCleaning,
        producers: Mapping[int, LastBatch],
        *,
        up_to_offset: int,
        high_watermark: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """Create a filter; `keys` must hold every key below `up_to_offset`."""
        self._keys = keys
        self._transactions = transactions
        self._producers = producers
        self._up_to_offset = up_to_offset
        self._high_watermark = high_watermark
        self._now_ms = now_ms
        self._delete_horizon_ms = min(now_ms + delete_retention_ms, INT64_MAX)

    def filter(self, header: BatchHeader, batch: Buffer, *, is_needed: bool) -> Buffer | None:
        """Return the batch unchanged, a rewritten batch, or None if nothing of it remains.

        A batch with `is_needed` is kept at least as an empty batch, because its header carries offsets.
        """
        is_needed = is_needed or self._is_needed(header)
        left = self._filter_marker(header, batch) if header.is_control else self._filter_records(header, batch)
        if left is None and is_needed:
            return batch if header.record_count == 0 else empty_batch(header)
        return left

    def _is_needed(self, header: BatchHeader) -> bool:
        if header.next_offset == self._high_watermark:
            return True  # so that a reader can advance to the high watermark
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset is not None:
            return header.last_offset == last.last_offset
        # Only the marker records the epoch that fences older producers.
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _filter_marker(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        is_spent = self._transactions.is_spent(header, batch)
        if header.record_count == 0:
            return None
        if not is_spent:
            return batch
        if header.delete_horizon_ms is not None:
            return None if header.delete_horizon_ms <= self._now_ms else batch
        kept = KeptRecords(header.record_count, False, header.max_timestamp, None)
        return rewrite_batch(header, open_body(batch, header), kept, self._delete_horizon_ms)

    def _filter_records(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        if self._transactions.is_aborted(header) or header.record_count == 0:
            return None
        if header.base_offset >= self._up_to_offset:
            return batch
        body = open_body(batch, header)
        horizon_ms = header.delete_horizon_ms
        kept = self._keys.filter_records(
            body,
            header.record_count,
            header.base_offset,
            header.base_timestamp,
            self._up_to_offset,
            horizon_ms is None or self._now_ms < horizon_ms,
        )
        if kept.record_count == 0:
            return None
        begins_horizon = kept.has_tombstone and horizon_ms is None
        if kept.body is None and not begins_horizon:
            return batch
        new_horizon_ms = self._delete_horizon_ms if begins_horizon else None
        return rewrite_batch(header, body if kept.body is None else kept.body, kept, new_horizon_ms)
