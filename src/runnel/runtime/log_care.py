"""What happens to logs by themselves: flushing, retention, checkpoints, removal of deleted files."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from runnel.base.clock import Clock
from runnel.base.limits import (
    CARE_TURN_PARTITIONS,
    DELETION_CHECK_INTERVAL_S,
    FLUSH_CHECK_INTERVAL_S,
    PRODUCER_EXPIRY_INTERVAL_S,
)
from runnel.config.broker import BrokerConfig
from runnel.runtime.partition import Partition
from runnel.runtime.replicas import Replicas
from runnel.storage.error import StorageError
from runnel.storage.log import Log
from runnel.storage.log_dir import LogDir
from runnel.storage.retention import delete_files

log = logging.getLogger("runnel.runtime")


class LogCare:
    """The periodic tasks of a broker's logs. Decisions are made on the event loop, disks are waited for elsewhere."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        replicas: Replicas,
        log_dirs: Sequence[LogDir],
        worker: Executor,
        folder_worker: Executor,
    ) -> None:
        self._config = config
        self._clock = clock
        self._replicas = replicas
        self._log_dirs = log_dirs
        self._worker = worker
        self._folder_worker = folder_worker

    def tasks(self) -> list[Coroutine[Any, Any, None]]:
        """One endless task for each kind of care."""
        config = self._config
        return [
            _every(FLUSH_CHECK_INTERVAL_S, self.flush),
            _every(DELETION_CHECK_INTERVAL_S, self.remove_deleted_files),
            _every(config.log_retention_check_interval_ms / 1000, self.apply_retention),
            _every(config.log_flush_offset_checkpoint_interval_ms / 1000, self.checkpoint),
            _every(PRODUCER_EXPIRY_INTERVAL_S, self.expire_producers),
            _every(config.replica_high_watermark_checkpoint_interval_ms / 1000, self.checkpoint_high_watermarks),
        ]

    async def flush(self) -> None:
        """Sync what `flush.ms` says is due, and segments that have been sealed."""
        for log_dir in self._log_dirs:
            for storage in log_dir.unflushed.look():
                if log_dir.is_offline or not storage.is_flush_awaited:
                    continue
                if storage.is_flush_due():
                    await self._flush(storage, sealed_only=False)
                elif storage.has_unflushed_segment:
                    await self._flush(storage, sealed_only=True)

    async def apply_retention(self) -> None:
        """Let segments leave that are past their topic's retention."""
        now_ms = self._clock.now_ms()
        for number, partition in enumerate(self.online()):
            try:
                partition.apply_retention(now_ms)
                if partition.log.folder.deletions.is_leaving(partition.log.directory):
                    await self._in_folder_worker(partial(delete_files, partition.log))
            except StorageError as error:
                log.error("retention of %s failed: %s", partition.name, error)
            if number % CARE_TURN_PARTITIONS == 0:
                await asyncio.sleep(0)

    async def remove_deleted_files(self) -> None:
        """Remove the files of segments that left their logs, and of topics that were deleted, a while ago."""
        if any(log_dir.has_deleted_files for log_dir in self._log_dirs):
            await self._in_folders(LogDir.remove_deleted_files)

    async def checkpoint(self) -> None:
        """Remember how far each log is known to be good, so that recovery has less to scan; look for lost logs."""
        await self._in_folders(LogDir.checkpoint)
        self._replicas.retry_missing()

    async def checkpoint_high_watermarks(self) -> None:
        """Remember how far replicated partitions are committed, so that a restart shows no less of them."""
        moved = set(self._replicas.moved)
        if not moved:
            return
        self._replicas.moved.clear()
        offsets = {
            (partition.topic, partition.index): partition.high_watermark
            for partition in self._replicas.all()
            if partition.is_replicated
        }
        if offsets and not await self._in_folders(lambda log_dir: log_dir.write_high_watermarks(offsets)):
            self._replicas.moved |= moved

    async def expire_producers(self) -> None:
        """Forget producers that have not written for a long time."""
        now_ms = self._clock.now_ms()
        for number, partition in enumerate(self._replicas.all()):
            producers = partition.log.producers
            producers.expire(now_ms)
            partition.guards.expire(now_ms - producers.expiration_ms)
            if number % CARE_TURN_PARTITIONS == 0:
                await asyncio.sleep(0)

    def online(self) -> Iterator[Partition]:
        """The partitions whose disk works and whose topic is still there when it is their turn."""
        return _online(self._replicas.all())

    def compacted(self) -> Iterator[Partition]:
        """Of those the ones that are compacted."""
        return _online(self._replicas.compacted())

    async def _flush(self, storage: Log, *, sealed_only: bool) -> None:
        flush = storage.begin_flush(sealed_only=sealed_only)
        try:
            await asyncio.get_running_loop().run_in_executor(self._worker, flush.run)
        except StorageError as error:
            log.error("%s could not be flushed: %s", storage.directory, error)
        else:
            storage.end_flush(flush)

    async def _in_folders(self, action: Callable[[LogDir], object]) -> bool:
        """Do something in each folder that works; whether nothing failed."""
        is_done = True
        for log_dir in self._log_dirs:
            if log_dir.is_offline:
                continue
            try:
                await self._in_folder_worker(partial(action, log_dir))
            except StorageError as error:
                log.error("%s: %s", log_dir.path, error)
                is_done = False
        return is_done

    async def _in_folder_worker(self, action: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._folder_worker, action)


def _online(partitions: Iterable[Partition]) -> Iterator[Partition]:
    return (partition for partition in partitions if not partition.is_retired and not partition.is_offline)


async def _every(interval_s: float, action: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(interval_s)
        try:
            await action()
        except Exception:
            # A bug in one kind of care must not end it: disks would fill without a word.
            log.exception("the care of logs failed")
