"""Compaction of one log: removal of every record that is not the newest of its key.

Theory of operation. First, the keys of the dirty part are put into a bounded map, each with the
offset of its newest record. When the map is full, the compaction ends at that offset, and the next
one continues from there. Second, all segments up to that point are read, including clean ones,
because they hold older records of the same keys. Segments are processed in groups that fit into
one segment; the remaining batches of a group are written next to it, and then replace it.

The last batch of a group is always kept, without records if none is needed. So a segment ends
where the next one begins, and recovery can tell compaction from a lost tail. Kafka leaves a gap
there.

`build_map` and `clean` may run on any thread, one after the other, and use only the plan. The
owner of the log applies their results.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event

from tailrace.base.limits import LOOKUP_CHUNK_BYTES, THROTTLE_REST_MS_MAX
from tailrace.records.batch import BatchHeader, Buffer
from tailrace.records.offset_map import SLOT_SIZE, KeyMap, make_offset_map
from tailrace.records.rewrite import open_body
from tailrace.storage.batch_filter import BatchFilter
from tailrace.storage.batch_walk import walk_batches
from tailrace.storage.cleaned_segment import CleanedGroup
from tailrace.storage.compaction_plan import CompactionPlan, Source, group_sources
from tailrace.storage.error import StorageError
from tailrace.storage.segment.segment import Segment
from tailrace.storage.transaction_cleaning import TransactionCleaning


class CompactionStopped(Exception):
    """The compaction was stopped by a call of `stop`."""


class MapTooSmall(Exception):
    """The map cannot hold even the keys of one batch."""


class CompactionCount:
    """Counters of a compaction."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.written_bytes = 0
        self.key_count = 0


class Compaction:
    """One compaction in progress."""

    def __init__(
        self,
        plan: CompactionPlan,
        *,
        map_bytes: int,
        load_factor: float = 0.9,
        chunk_bytes: int = LOOKUP_CHUNK_BYTES,
        rest_for: Callable[[int], float] = lambda _size_bytes: 0.0,
    ) -> None:
        """Create a compaction; `rest_for(n)` returns how many seconds to pause after n bytes were read or written."""
        self.plan = plan
        self.count = CompactionCount()
        self.end_offset = plan.dirt.first_offset
        self._keys = _make_map(plan, map_bytes, load_factor)
        self._chunk_bytes = chunk_bytes
        self._rest_for = rest_for
        self._stopping = Event()
        self._transactions = TransactionCleaning(plan.aborted)

    def stop(self) -> None:
        """Make the compaction end soon with `CompactionStopped`. May be called from any thread."""
        self._stopping.set()

    def build_map(self) -> None:
        """Store the newest offset of each key of the dirty part, and set `end_offset`, the end of the compaction."""
        dirt, sources = self.plan.dirt, self.plan.sources
        transactions = TransactionCleaning(self.plan.aborted)
        ends = [*(source.base_offset for source in sources[1:]), dirt.end_offset]
        for source, end_offset in zip(sources, ends, strict=True):
            if end_offset <= dirt.first_offset:
                continue
            is_first = source.base_offset <= dirt.first_offset
            for _, header, batch in self._batches(source, self.plan.dirty_position if is_first else 0):
                if not self._note_keys(header, batch, transactions):
                    self._begin_filtering()
                    return
                self.end_offset = max(self.end_offset, header.next_offset)
            # There are no records between the last batch and the next segment.
            self.end_offset = end_offset
        self._begin_filtering()

    def _note_keys(self, header: BatchHeader, batch: Buffer, transactions: TransactionCleaning) -> bool:
        """Put the keys of a batch into the map. Return False if the map is full."""
        if header.is_control:
            transactions.is_spent(header, batch)
            return True
        if transactions.is_aborted(header):
            return True
        body, first_offset = open_body(batch, header), self.plan.dirt.first_offset
        return self._keys.put_records(body, header.record_count, header.base_offset, first_offset)

    def _begin_filtering(self) -> None:
        plan = self.plan
        self.count.key_count = self._keys.size
        if self.end_offset == plan.dirt.first_offset:
            bound = f"the {self._keys.capacity} keys that log.cleaner.dedupe.buffer.size allows"
            raise MapTooSmall(f"the batch at offset {self.end_offset} has more than {bound}; increase it")
        self._filter = BatchFilter(
            self._keys,
            self._transactions,
            plan.producers,
            up_to_offset=self.end_offset,
            high_watermark=plan.high_watermark,
            now_ms=plan.now_ms,
            delete_retention_ms=plan.config.delete_retention_ms,
        )

    def finish(self) -> None:
        """Release the map. Freeing that much memory takes a while."""
        del self._filter, self._keys

    def groups(self) -> Iterator[tuple[Source, ...]]:
        """Yield the groups of segments to clean, in the order in which they must be cleaned."""
        return group_sources(self.plan, self.end_offset)

    def clean(self, group: tuple[Source, ...]) -> tuple[Segment, ...] | None:
        """Write and sync the remaining batches of the next group. Return None if no batch changed."""
        plan = self.plan
        created_ms = group[-1].created_ms
        cleaned = CleanedGroup(plan.folder, plan.directory, group[0].base_offset, plan.config, created_ms)
        try:
            is_changed = len(group) > 1
            last = max((source for source in group if source.size_bytes), default=None, key=_base_offset)
            for source in group:
                is_changed |= self._clean_source(source, cleaned, is_last=source is last)
            if is_changed:
                return cleaned.finish()
        except BaseException:
            with suppress(StorageError):
                cleaned.discard()
            raise
        cleaned.discard()
        return None

    def _clean_source(self, source: Source, cleaned: CleanedGroup, *, is_last: bool) -> bool:
        """Write the remaining batches of one segment. Return whether any batch changed."""
        is_changed = False
        for position, header, batch in self._batches(source, 0):
            is_needed = is_last and position + header.size_bytes == source.size_bytes
            left = self._filter.filter(header, batch, is_needed=is_needed)
            is_changed |= left is not batch
            if left is not None:
                cleaned.append(left, self._transactions.take_indexed())
                if cleaned.buffered_bytes >= self._chunk_bytes:
                    self._write(cleaned)
        self._write(cleaned)
        return is_changed

    def _write(self, cleaned: CleanedGroup) -> None:
        size_bytes = cleaned.write()
        self.count.written_bytes += size_bytes
        self._rest(size_bytes)

    def _batches(self, source: Source, start: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Yield the batches of a segment from a position on, with a pause after each chunk."""
        unrested_bytes = 0
        file = self.plan.folder.fs.open(source.path)
        for position, header, batch in walk_batches(file, start, source.size_bytes, self._chunk_bytes):
            yield position, header, batch
            unrested_bytes += header.size_bytes
            if unrested_bytes >= self._chunk_bytes:
                self.count.read_bytes += unrested_bytes
                self._rest(unrested_bytes)
                unrested_bytes = 0
        self.count.read_bytes += unrested_bytes
        self._rest(unrested_bytes)

    def _rest(self, size_bytes: int) -> None:
        rest_s = self._rest_for(size_bytes)
        while rest_s > 0 and not self._stopping.wait(min(rest_s, THROTTLE_REST_MS_MAX / 1000)):
            rest_s = self._rest_for(0)
        if self._stopping.is_set():
            raise CompactionStopped


def _make_map(plan: CompactionPlan, map_bytes: int, load_factor: float) -> KeyMap:
    """Return a map of `map_bytes`, or a smaller one if the dirty part cannot have that many keys."""
    key_count_max = plan.dirt.end_offset - plan.dirt.first_offset
    enough_bytes = (int(key_count_max / load_factor) + 2) * SLOT_SIZE
    return make_offset_map(min(map_bytes, enough_bytes), load_factor)


def _base_offset(source: Source) -> int:
    return source.base_offset
