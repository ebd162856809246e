"""Periodic work on logs: flushes, retention, checkpoints, removal of deleted files."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from tailrace.base.clock import Clock
from tailrace.base.limits import (
    CARE_TURN_PARTITIONS,
    DELETION_CHECK_INTERVAL_S,
    FLUSH_CHECK_INTERVAL_S,
)
from tailrace.config.broker import BrokerConfig
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.replicas import Replicas
from tailrace.storage.error import StorageError
from tailrace.storage.log import Log
from tailrace.storage.log_dir import LogDir
from tailrace.storage.retention import delete_files

log = logging.getLogger("tailrace.runtime")


class LogCare:
    """The periodic tasks of a broker's logs. Decisions are made on the event loop, disk I/O happens in threads."""

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
        """Return one endless task for each kind of work."""
        config = self._config
        return [
            _every(FLUSH_CHECK_INTERVAL_S, self.flush),
            _every(DELETION_CHECK_INTERVAL_S, self.remove_deleted_files),
            _every(config.log_retention_check_interval_ms / 1000, self.apply_retention),
            _every(config.log_flush_offset_checkpoint_interval_ms / 1000, self.checkpoint),
            _every(config.producer_id_expiration_check_interval_ms / 1000, self.expire_producers),
            _every(config.replica_high_watermark_checkpoint_interval_ms / 1000, self.checkpoint_high_watermarks),
        ]

    async def flush(self) -> None:
        """Flush logs that are due by `flush.ms`, and segments that have been sealed."""
        for log_dir in self._log_dirs:
            for storage in log_dir.unflushed.look():
                if log_dir.is_offline or not storage.is_flush_awaited:
                    continue
                if storage.is_flush_due():
                    await self._flush(storage, sealed_only=False)
                elif storage.has_unflushed_segment:
                    await self._flush(storage, sealed_only=True)

    async def apply_retention(self) -> None:
        """Delete segments that are past their topic's retention."""
        now_ms = self._clock.now_ms()
        for number, partition in enumerate(self.online()):
            try:
                if count := partition.apply_retention(now_ms):
                    first = partition.log.log_start_offset
                    log.info("%s: retention deleted %d segments; the first offset is %d", partition.name, count, first)
                if partition.log.folder.deletions.is_leaving(partition.log.directory):
                    await self._in_folder_worker(partial(delete_files, partition.log))
            except StorageError as error:
                log.error("%s: expired segments could not be deleted: %s", partition.name, error)
            if number % CARE_TURN_PARTITIONS == 0:
                await asyncio.sleep(0)

    async def remove_deleted_files(self) -> None:
        """Remove the files of deleted segments and topics whose delay is over."""
        if any(log_dir.has_deleted_files for log_dir in self._log_dirs):
            await self._in_folders(LogDir.remove_deleted_files)

    async def checkpoint(self) -> None:
        """Write the recovery points, so that recovery has less to scan, and retry logs that could not be opened."""
        await self._in_folders(LogDir.checkpoint)
        self._replicas.retry_missing()

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks of replicated partitions, so that a restart does not lower them."""
        moved = set(self._replicas.moved)
        if not moved:
            return
        self._replicas.moved.clear()
        offsets = {
            (partition.topic, partition.index): partition.high_watermark
            for partition in self._replicas.all()
            if partition.is_replicated
        }
        is_written = not offsets
        try:
            is_written = is_written or await self._in_folders(lambda log_dir: log_dir.write_high_watermarks(offsets))
        finally:  # a stop may cancel this before the worker comes to it
            if not is_written:
                self._replicas.moved |= moved

    async def expire_producers(self) -> None:
        """Forget producers whose ids have expired."""
        now_ms = self._clock.now_ms()
        for number, partition in enumerate(self._replicas.all()):
            producers = partition.log.producers
            producers.expire(now_ms)
            partition.guards.expire(now_ms - producers.expiration_ms)
            if number % CARE_TURN_PARTITIONS == 0:
                await asyncio.sleep(0)

    async def finish(self) -> None:
        """Wait for flushes that are under way and write the high watermarks down, before the logs are closed."""
        # Flushes may be left that no request waits for, such as those of records sent without acks.
        while ends := {partition.flush_end for partition in self._replicas.all()} - {None}:
            await asyncio.wait([end for end in ends if end is not None])
        await self.checkpoint_high_watermarks()

    def online(self) -> Iterator[Partition]:
        """Yield the partitions whose disk works and that are not deleted when it is their turn."""
        return _online(self._replicas.all())

    def compacted(self) -> Iterator[Partition]:
        """Yield the online partitions of compacted topics."""
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
        """Run an action in each online folder; return whether all succeeded."""
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
            # A bug must not end the task: disks would fill up unnoticed.
            log.exception("periodic work on logs failed: %s", getattr(action, "__name__", action))
