"""Compaction of one log: the records go that are not their key's newest.

Theory of operation. First the keys of the dirty part are put into a bounded map with the offset
where each stands last. When the map is full the compaction ends there and the rest waits for
the next one. Then all segments up to that point are read, clean ones too, because they hold
older records of the same keys. Segments are taken in groups that fit into one; what is left of
a group is written beside it, and takes its place.

The last batch of a group always stays, without records if none is needed. So a segment ends
where the next one begins, and a start after a crash can tell compaction from a lost tail. Kafka
leaves a gap there.

`build_map` and `clean` run on any thread, one after the other, on what the plan holds. Their
results are applied by whoever owns the log.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event

from runnel.base.limits import LOOKUP_CHUNK_BYTES, THROTTLE_REST_MS_MAX
from runnel.records.batch import BatchHeader, Buffer
from runnel.records.offset_map import SLOT_SIZE, KeyMap, make_offset_map
from runnel.records.rewrite import open_body
from runnel.storage.batch_filter import BatchFilter
from runnel.storage.batch_walk import walk_batches
from runnel.storage.cleaned_segment import CleanedGroup
from runnel.storage.compaction_plan import CompactionPlan, Source, group_sources
from runnel.storage.error import StorageError
from runnel.storage.segment import Segment
from runnel.storage.transaction_cleaning import TransactionCleaning


class CompactionStopped(Exception):  # noqa: N818  it says what happened, and nothing is wrong
    """The compaction was told to stop."""


class MapTooSmall(Exception):  # noqa: N818  says what is wrong with the configuration
    """Not even the keys of one batch fit into the map."""


class CompactionCount:
    """What a compaction has done so far."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.written_bytes = 0
        self.key_count = 0


class Compaction:
    """One compaction on its way."""

    def __init__(
        self,
        plan: CompactionPlan,
        *,
        map_bytes: int,
        load_factor: float = 0.9,
        chunk_bytes: int = LOOKUP_CHUNK_BYTES,
        rest_for: Callable[[int], float] = lambda _size_bytes: 0.0,
    ) -> None:
        """`rest_for` says how many seconds to rest after that many bytes were read or written, or are still to rest."""
        self.plan = plan
        self.count = CompactionCount()
        self.end_offset = plan.dirt.first_offset
        self._keys = _make_map(plan, map_bytes, load_factor)
        self._chunk_bytes = chunk_bytes
        self._rest_for = rest_for
        self._stopping = Event()
        self._transactions = TransactionCleaning(plan.aborted)

    def stop(self) -> None:
        """Make it end with `CompactionStopped` soon, from any thread."""
        self._stopping.set()

    def build_map(self) -> None:
        """Note where each key of the dirty part stands last. Sets the end of what can be compacted."""
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
            # Between the last batch and the next segment there is nothing.
            self.end_offset = end_offset
        self._begin_filtering()

    def _note_keys(self, header: BatchHeader, batch: Buffer, transactions: TransactionCleaning) -> bool:
        """Put the keys of a batch into the map. False if one found no room."""
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
            bound = f"the {self._keys.capacity} that log.cleaner.dedupe.buffer.size allows"
            raise MapTooSmall(f"the first batch has more keys than {bound}")
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
        """Give the memory back, which takes a while."""
        del self._filter, self._keys

    def groups(self) -> Iterator[tuple[Source, ...]]:
        """The segments to clean, in the order in which they must be."""
        return group_sources(self.plan, self.end_offset)

    def clean(self, group: tuple[Source, ...]) -> tuple[Segment, ...] | None:
        """Write what is left of the next group and sync it. None if all of it is left."""
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
        """Write what is left of one segment. Returns whether something is gone."""
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
        """The batches of a segment from a position on, with a rest after each chunk."""
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
    """A map of that size, or a smaller one if the dirty part cannot have so many keys."""
    key_count_max = plan.dirt.end_offset - plan.dirt.first_offset
    enough_bytes = (int(key_count_max / load_factor) + 2) * SLOT_SIZE
    return make_offset_map(min(map_bytes, enough_bytes), load_factor)


def _base_offset(source: Source) -> int:
    return source.base_offset
