"""The scheduling of log compaction.

Decisions are made on the event loop: which log is the dirtiest, the plan of its compaction, and when compacted
segments replace old ones. Records are read and written in separate threads that use only the plan. Files are renamed in
the thread that changes folders, so that a partition is never deleted at the same time.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from tailrace.base.clock import Clock
from tailrace.base.limits import COMPACTION_CHUNK_BYTES_MIN, COMPACTION_THREADS_MAX
from tailrace.config.broker import BrokerConfig
from tailrace.records.error import RecordError
from tailrace.runtime.partition import Partition
from tailrace.storage.cleaned_segment import discard_cleaned
from tailrace.storage.compaction import Compaction, CompactionStopped
from tailrace.storage.compaction_plan import (
    CompactionPlan,
    Dirt,
    Source,
    is_due,
    is_overtaken,
    measure_dirt,
    plan_compaction,
)
from tailrace.storage.error import StorageError
from tailrace.storage.log import Log
from tailrace.storage.log_dir import LogDir
from tailrace.storage.segment.segment import Segment
from tailrace.storage.throttle import Throttle

log = logging.getLogger("tailrace.runtime")

T = TypeVar("T")


class LogCompaction:
    """Compacts the dirtiest logs of a broker."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        compacted: Callable[[], Iterable[Partition]],
        log_dirs: Sequence[LogDir],
        folder_worker: Executor,
    ) -> None:
        """`compacted` returns the online partitions of compacted topics, `config` the current configuration."""
        self._config = config
        self._clock = clock
        self._compacted = compacted
        self._log_dirs = log_dirs
        self._folder_worker = folder_worker
        self._worker = ThreadPoolExecutor(COMPACTION_THREADS_MAX, thread_name_prefix="tailrace-compaction")
        self._throttle = Throttle(clock, lambda: self._config().log_cleaner_io_max_bytes_per_second)
        self._running: dict[Log, asyncio.Task[None]] = {}
        self._compactions: set[Compaction] = set()
        self._resting: dict[Log, int] = {}  # until when a log is not retried
        self._uncleanable: set[Log] = set()
        # For metrics: the durations of the last compactions, and by how much the most overdue one is late.
        self.clean_times_s: list[float] = []
        self.overdue_ms = 0
        self.is_dead = False
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Compact logs that are due, then wait until another may be due, for ever."""
        try:
            while True:
                self._ended.clear()
                self.start_due()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._config().log_cleaner_backoff_ms / 1000):
                        await self._ended.wait()
        except Exception:
            self.is_dead = True
            log.exception("log compaction crashed; no log is compacted until the broker restarts")
            raise
        finally:
            await self._stop()

    @property
    def uncleanable(self) -> frozenset[Log]:
        """The logs that cannot be compacted and are skipped."""
        return frozenset(self._uncleanable)

    async def _stop(self) -> None:
        for compaction in self._compactions:
            compaction.stop()
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        self._worker.shutdown()

    def start_due(self) -> None:
        """Start compaction of the dirtiest logs, as many as there are threads."""
        config = self._config()
        while config.log_cleaner_enable and len(self._running) < min(
            config.log_cleaner_threads, COMPACTION_THREADS_MAX
        ):
            found = self._dirtiest()
            if found is None:
                return
            partition, dirt = found
            plans = []
            with self._judging(partition):
                # Before a truncation or retention can change the log that was measured.
                plans.append(plan_compaction(partition.log, dirt, partition.high_watermark, self._clock.now_ms()))
            if not plans:
                return  # the next look leaves this log out
            task = asyncio.get_running_loop().create_task(self._compact(partition, plans[0]))
            self._running[partition.log] = task
            task.add_done_callback(partial(self._end, partition.log))

    def _end(self, storage: Log, _: "asyncio.Task[None]") -> None:
        del self._running[storage]
        self._ended.set()

    async def settled(self) -> None:
        """Wait until no log is being compacted."""
        while self._running:
            await asyncio.wait(self._running.values())
            await asyncio.sleep(0)

    def _dirtiest(self) -> tuple[Partition, Dirt] | None:
        now_ms, resting_now_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        found: list[tuple[Partition, Dirt]] = []
        logs = set()
        self.overdue_ms = 0
        for partition in self._compacted():
            storage = partition.log
            logs.add(storage)
            if not storage.config.cleanup_policy_compact or storage in self._running or storage in self._uncleanable:
                continue
            if self._resting.get(storage, 0) > resting_now_ms:
                continue
            with self._judging(partition):
                dirt = measure_dirt(storage, partition.last_stable_offset, now_ms)
                self.overdue_ms = max(self.overdue_ms, dirt.overdue_ms)
                if is_due(dirt, storage.config):
                    found.append((partition, dirt))
        self._uncleanable &= logs
        self._resting = {storage: until_ms for storage, until_ms in self._resting.items() if storage in logs}
        return max(found, key=lambda pair: pair[1].ratio, default=None)

    async def _compact(self, partition: Partition, plan: CompactionPlan) -> None:
        with self._judging(partition):
            try:
                await self._run(partition, plan)
            except (StorageError, RecordError):
                # Files that were deleted in the meantime cannot be read, which is not an error.
                if partition.is_retired or is_overtaken(plan, partition.log):
                    raise CompactionStopped from None
                raise

    @contextmanager
    def _judging(self, partition: Partition) -> Iterator[None]:
        """Skip a log for a while after a temporary error, and until the next start after any other."""
        try:
            yield
        except CompactionStopped:
            self._rest(partition)
        except StorageError as error:
            partition.log.folder.note(error)
            log.error("%s could not be compacted: %s", partition.name, error)
            self._rest(partition)
        except Exception:
            log.exception("%s cannot be compacted and is skipped until the broker restarts", partition.name)
            self._uncleanable.add(partition.log)

    def _rest(self, partition: Partition) -> None:
        self._resting[partition.log] = self._clock.monotonic_ms() + self._config().log_cleaner_backoff_ms

    async def _run(self, partition: Partition, plan: CompactionPlan) -> None:
        storage, began_ms = partition.log, self._clock.monotonic_ms()
        compaction = self._make(plan)
        size_bytes = storage.size_bytes
        self._compactions.add(compaction)
        try:
            await self._in(self._worker, compaction.build_map)
            for group in compaction.groups():
                cleaned = await self._in(self._worker, partial(compaction.clean, group))
                if cleaned is not None:
                    await self._swap(storage, plan, group, cleaned)
            await self._in(self._worker, compaction.finish)
        finally:
            self._compactions.discard(compaction)
        if is_overtaken(plan, storage):
            raise CompactionStopped
        storage.cleaner_offset = compaction.end_offset
        for log_dir in self._log_dirs:
            if log_dir.path == storage.folder.path:
                await self._in(self._folder_worker, log_dir.checkpoint_cleaner)
        taken_s = (self._clock.monotonic_ms() - began_ms) / 1000
        # One for each thread, as in Kafka.
        self.clean_times_s = [*self.clean_times_s, taken_s][-max(1, self._config().log_cleaner_threads) :]
        log.info(
            "%s was compacted up to offset %d in %.1f s, with %d keys: %d bytes became %d",
            partition.name,
            compaction.end_offset,
            taken_s,
            compaction.count.key_count,
            size_bytes,
            storage.size_bytes,
        )

    def _make(self, plan: CompactionPlan) -> Compaction:
        config = self._config()
        threads = max(1, min(config.log_cleaner_threads, COMPACTION_THREADS_MAX))
        return Compaction(
            plan,
            map_bytes=config.log_cleaner_dedupe_buffer_size // threads,
            load_factor=config.log_cleaner_io_buffer_load_factor,
            # Half of the buffer is for reading, half for writing.
            chunk_bytes=max(COMPACTION_CHUNK_BYTES_MIN, config.log_cleaner_io_buffer_size // threads // 2),
            rest_for=self._throttle.take,
        )

    async def _swap(
        self, storage: Log, plan: CompactionPlan, group: Sequence[Source], cleaned: Sequence[Segment]
    ) -> None:
        swap = None
        if not is_overtaken(plan, storage):
            old = [source.base_offset for source in group]
            swap = storage.swaps.begin(storage.segments, old, cleaned, storage.config.file_delete_delay_ms)
        if swap is None:
            # Retention or truncation came first. The rest of the log is planned again.
            for segment in cleaned:
                await self._in(self._folder_worker, partial(discard_cleaned, storage.folder.fs, segment))
            raise CompactionStopped
        await self._in(self._folder_worker, swap.run)
        storage.swaps.end(swap)

    async def _in(self, worker: Executor, action: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(worker, action)
