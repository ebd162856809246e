"""What compaction leaves of a batch."""

from collections.abc import Mapping
from typing import NamedTuple

from runnel.records.batch import BatchHeader, Buffer
from runnel.records.offset_map import KeptRecords, KeyMap
from runnel.records.record import INT64_MAX
from runnel.records.rewrite import empty_batch, open_body, rewrite_batch
from runnel.storage.producer_state import ProducerState
from runnel.storage.transaction_cleaning import TransactionCleaning


class LastBatch(NamedTuple):
    """What must stay so that the state of an active producer can be found in the log again."""

    last_offset: int | None  # of the last batch with records, None if only a marker is known
    producer_epoch: int


def last_batches(producers: ProducerState) -> dict[int, LastBatch]:
    """The last batch of each producer that is remembered."""
    return {
        entry.producer_id: LastBatch(entry.batches[-1].last_offset if entry.batches else None, entry.producer_epoch)
        for entry in producers.entries.values()
    }


class BatchFilter:
    """Decides about the batches of one log, in their order."""

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
        """Below `up_to_offset` the map knows every key."""
        self._keys = keys
        self._transactions = transactions
        self._producers = producers
        self._up_to_offset = up_to_offset
        self._high_watermark = high_watermark
        self._now_ms = now_ms
        self._delete_horizon_ms = min(now_ms + delete_retention_ms, INT64_MAX)

    def filter(self, header: BatchHeader, batch: Buffer, *, is_needed: bool) -> Buffer | None:
        """What is left of the next batch: itself, another one, or None.

        One that is needed stays at least as an empty one, for the offsets in its header.
        """
        is_needed = is_needed or self._is_needed(header)
        left = self._filter_marker(header, batch) if header.is_control else self._filter_records(header, batch)
        if left is None and is_needed:
            return batch if header.record_count == 0 else empty_batch(header)
        return left

    def _is_needed(self, header: BatchHeader) -> bool:
        if header.next_offset == self._high_watermark:
            return True  # a reader must be able to get there
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset is not None:
            return header.last_offset == last.last_offset
        # The marker alone knows the epoch by which older producers are fenced.
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
