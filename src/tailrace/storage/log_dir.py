"""A log folder: one subfolder for each partition, and the files that all of them share."""

import errno
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Protocol, TypeVar
from uuid import UUID, uuid4

from tailrace.base.clock import Clock
from tailrace.base.invariant import invariant
from tailrace.storage.checkpoint import (
    CLEANER_FILE_NAME,
    HIGH_WATERMARK_FILE_NAME,
    LOG_START_FILE_NAME,
    RECOVERY_POINT_FILE_NAME,
    UNKNOWN_STOP,
    CleanStop,
    read_clean_mark,
    read_known_offsets,
    read_offsets,
    read_topic_id,
    take_clean_mark,
    write_clean_mark,
    write_offsets,
    write_topic_id,
)
from tailrace.storage.error import StorageError
from tailrace.storage.folder import Folder
from tailrace.storage.fs import FileSystem
from tailrace.storage.handle_pool import HandlePool
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.recovery import open_log
from tailrace.storage.retention import first_file_offset
from tailrace.storage.unflushed import Unflushed

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

LOCK_FILE_NAME = ".lock"
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
_FILE_NAME_SIZE_MAX = 255
_PARTITION_NAME = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,10})")

TopicPartition = tuple[str, int]


class Spread(Protocol):
    """A function like `map` that may use several threads. Logs are independent of each other."""

    def __call__(self, function: Callable[[T], R], items: Iterable[T], /) -> Iterable[R]: ...


def partition_name(topic: str, partition: int) -> str:
    """Return the name of a partition's folder."""
    return f"{topic}-{partition}"


def parse_partition_name(name: str) -> TopicPartition | None:
    """Return the partition that a folder belongs to, or None if its name is not that of a partition."""
    match = _PARTITION_NAME.fullmatch(name)
    if (
        match is None
        or match["topic"] in (".", "..")
        or partition_name(match["topic"], int(match["partition"])) != name
    ):
        return None
    return match["topic"], int(match["partition"])


class LogDir:
    """The logs of one log folder, open from `open` to `close`.

    `logs` and `topic_ids` have an entry for each partition; a partition whose folder has no
    readable `partition.metadata` has no topic id.
    """

    def __init__(self, folder: Folder, clock: Clock, new_id: Callable[[], str], lock: object) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[TopicPartition, UUID] = {}
        self.was_clean = False
        self.clean_stop: CleanStop | None = None  # None if the last stop was not clean
        self._folder = folder
        self._clock = clock
        self._new_id = new_id
        self._lock: object | None = lock
        # The folders of deleted partitions, with the time at which to remove each.
        self._deleted: dict[str, int] = {}
        # The content of the checkpoint files, which are written only when it changes.
        self._written: dict[str, Mapping[TopicPartition, int]] = {}
        # Partitions that are gone but may still have offsets in the checkpoints, which a new partition with
        # the same name must not inherit.
        self._stale: set[TopicPartition] = set()
        # A worker thread may write a checkpoint while the event loop truncates a log. The lower recovery
        # point must be the one that stays on the disk.
        self._checkpoint_lock = Lock()
        folder.save_starts = self.checkpoint_starts

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        path: str,
        clock: Clock,
        config_of: Callable[[str], LogConfig] = lambda _topic: LogConfig(),
        new_id: Callable[[], str] = lambda: uuid4().hex,
        handles: HandlePool | None = None,
    ) -> "LogDir":
        """Load every log in `path`; `config_of` returns the config of a topic, and folders share `handles`.

        Raise `StorageError` if the disk fails or another process uses the folder.
        """
        if not fs.exists(path):
            fs.make_directory(path)
            fs.sync_directory(os.path.dirname(os.path.abspath(path)))
        log_dir = cls(Folder(fs, path, handles), clock, new_id, lock_folder(fs, path))
        try:
            log_dir.clean_stop = read_clean_mark(fs, path)
            log_dir.was_clean = take_clean_mark(fs, path)
            log_dir._load(config_of)
        except BaseException:
            log_dir.close(clean=False)  # the error refers to the folder, and would keep it locked
            raise
        return log_dir

    def _load(self, config_of: Callable[[str], LogConfig]) -> None:
        fs = self._folder.fs
        recovery_points = read_known_offsets(fs, self._path(RECOVERY_POINT_FILE_NAME))
        start_offsets = read_offsets(fs, self._path(LOG_START_FILE_NAME))
        cleaner_offsets = read_offsets(fs, self._path(CLEANER_FILE_NAME))
        self._stale = {*(recovery_points or ()), *start_offsets, *cleaner_offsets, *self.read_high_watermarks()}
        for entry in sorted(fs.list_directory(self.path)):
            if not entry.is_directory:
                continue
            if entry.name.endswith(DELETE_SUFFIX):
                self._deleted[self._path(entry.name)] = 0
                continue
            key = parse_partition_name(entry.name)
            if key is None:
                what = "a stray partition" if entry.name.endswith(STRAY_SUFFIX) else "not a partition"
                logger.warning("folder %s is %s and is left alone", self._path(entry.name), what)
                continue
            log = open_log(
                self._folder,
                self._path(entry.name),
                self._clock,
                config_of(key[0]),
                log_start_offset=start_offsets.get(key, 0),
                # A log that the checkpoint does not name is newer than the checkpoint and was never flushed.
                recovery_point=None if recovery_points is None else recovery_points.get(key, 0),
                cleaner_offset=cleaner_offsets.get(key),
                is_clean=self.was_clean,
            )
            topic_id = read_topic_id(fs, log.directory)
            if topic_id is not None:
                self.topic_ids[key] = topic_id
            elif log.log_end_offset == 0:
                # The topic id is written before any record, so the creation of this partition was interrupted.
                self._deleted[log.directory] = 0
                continue
            self._add(key, log)
        if recovery_points is None:
            # From now on a missing file means that it was lost.
            self._write_recovery_points()

    def _add(self, key: TopicPartition, log: Log) -> None:
        log.on_truncation = self._write_offsets
        self.logs[key] = log
        self._stale.discard(key)

    def _path(self, name: str) -> str:
        return os.path.join(self.path, name)

    @property
    def path(self) -> str:
        return self._folder.path

    @property
    def failure(self) -> StorageError | None:
        """The error that took the folder offline, if it is offline."""
        return self._folder.failure

    @property
    def is_offline(self) -> bool:
        return self._folder.is_offline

    def when_offline(self, tell: Callable[[], object]) -> None:
        """Call `tell`, on any thread, when the folder goes offline."""
        self._folder.on_failure = tell

    @property
    def unflushed(self) -> Unflushed:
        """The logs that may have to be flushed."""
        return self._folder.unflushed

    def create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> Log:
        """Create the folder of a partition, write its topic id, and open its empty log."""
        key = topic, partition
        invariant(key not in self.logs, f"{topic}-{partition} exists")
        invariant(parse_partition_name(partition_name(topic, partition)) == key, f"{topic!r} is not a topic name")
        directory = self._path(partition_name(topic, partition))
        with self._folder.judging():
            if key in self._stale:
                self.checkpoint()
            if directory in self._deleted:
                self.purge()
            self._folder.fs.make_directory(directory)
            write_topic_id(self._folder.fs, directory, topic_id)
            self._folder.fs.sync_directory(self.path)
            self._add(key, open_log(self._folder, directory, self._clock, config))
        self.topic_ids[key] = topic_id
        return self.logs[key]

    def create_all(
        self, topic: str, partitions: Sequence[int], topic_id: UUID, config: LogConfig, spread: Spread = map
    ) -> dict[int, Log]:
        """Create several partitions of a topic. The result leaves out those that could not be created."""
        keys = {(topic, partition) for partition in partitions}
        directories = {self._path(partition_name(*key)) for key in keys}
        with self._folder.judging():
            if not keys.isdisjoint(self._stale):
                self.checkpoint()
            if not directories.isdisjoint(self._deleted):
                self.purge()
        made = zip(partitions, spread(partial(self._make, topic, topic_id, config), partitions), strict=True)
        logs = {partition: log for partition, log in made if log is not None}
        with self._folder.judging():
            self._folder.fs.sync_directory(self.path)
        for partition, log in logs.items():
            self._add((topic, partition), log)
            self.topic_ids[topic, partition] = topic_id
        return logs

    def _make(self, topic: str, topic_id: UUID, config: LogConfig, partition: int) -> Log | None:
        key = topic, partition
        invariant(key not in self.logs, f"{topic}-{partition} exists")
        invariant(parse_partition_name(partition_name(*key)) == key, f"{topic!r} is not a topic name")
        directory = self._path(partition_name(*key))
        try:
            with self._folder.judging():
                self._folder.fs.make_directory(directory)
                write_topic_id(self._folder.fs, directory, topic_id)
                return open_log(self._folder, directory, self._clock, config)
        except StorageError:
            return None  # a retry raises the error

    def delete(self, topic: str, *partitions: int) -> None:
        """Delete partitions. Their files are kept under another name for `file.delete.delay.ms`.

        All are renamed before the sync of the folder, so that a kill is unlikely to come in between.
        """
        with self._folder.judging():
            for partition in partitions:
                due_ms = self._clock.monotonic_ms() + self.logs[topic, partition].config.file_delete_delay_ms
                self._deleted[self._move_away(topic, partition, DELETE_SUFFIX)] = due_ms
            self._folder.fs.sync_directory(self.path)

    def reopen(self, topic: str, partition: int) -> Log:
        """Open the log of a partition again that could not be deleted, because it is needed after all."""
        key = topic, partition
        old = self.logs[key]
        with self._folder.judging():
            log = open_log(
                self._folder,
                old.directory,
                self._clock,
                old.config,
                log_start_offset=old.log_start_offset,
                recovery_point=old.checkpoint_offset,
                cleaner_offset=old.cleaner_offset,
            )
        self._add(key, log)
        return log

    def set_aside(self, topic: str, partition: int) -> str:
        """Rename a partition whose topic does not exist, as Kafka does. It is never deleted automatically."""
        with self._folder.judging():
            target = self._move_away(topic, partition, STRAY_SUFFIX)
            self._folder.fs.sync_directory(self.path)
        return target

    def _move_away(self, topic: str, partition: int, suffix: str) -> str:
        key = topic, partition
        log = self.logs[key]
        # Like Kafka, shorten the topic, not the id, if the name would be too long for the file system.
        suffix = f"-{partition}.{self._new_id()}{suffix}"
        target = self._path(topic[: _FILE_NAME_SIZE_MAX - len(suffix)] + suffix)
        log.leave()
        self._folder.deletions.forget(log.directory)
        self._folder.fs.rename(log.directory, target)
        del self.logs[key]
        self.topic_ids.pop(key, None)
        self._stale.add(key)
        return target

    def purge(self) -> int:
        """Remove the files of all deleted partitions. Return the number of partitions."""
        return self._purge(list(self._deleted))

    def _purge(self, directories: Sequence[str]) -> int:
        with self._folder.judging():
            for directory in directories:
                self._remove_tree(directory)
                del self._deleted[directory]
        return len(directories)

    @property
    def has_deleted_files(self) -> bool:
        """Whether files of deleted segments or partitions wait for their removal."""
        return self._folder.deletions.is_waiting or bool(self._deleted)

    def remove_deleted_files(self) -> int:
        """Remove the files of segments and partitions whose delay is over. Return the number of both."""
        now_ms = self._clock.monotonic_ms()
        with self._folder.judging():
            count = self._folder.deletions.remove_due(now_ms)
        return count + self._purge([directory for directory, due_ms in self._deleted.items() if due_ms <= now_ms])

    def _remove_tree(self, directory: str) -> None:
        fs = self._folder.fs
        if not fs.exists(directory):
            return
        for entry in fs.list_directory(directory):
            path = os.path.join(directory, entry.name)
            if entry.is_directory:
                self._remove_tree(path)
            else:
                fs.remove(path)
        fs.remove_directory(directory)

    def checkpoint(self) -> None:
        """Write the checkpoints of recovery points, cleaner offsets and log start offsets."""
        with self._folder.judging():
            self._write_offsets()

    def _write_offsets(self) -> None:
        gone = tuple(self._stale)
        self._write_recovery_points()
        self.checkpoint_cleaner()
        self._forget_high_watermarks()
        self._write_starts()
        self._stale.difference_update(gone)  # no file has them any more

    def _forget_high_watermarks(self) -> None:
        """Remove the high watermarks of partitions that are gone."""
        if not self._stale:
            return
        with self._checkpoint_lock:
            known = self._written.get(HIGH_WATERMARK_FILE_NAME)
            known = self.read_high_watermarks() if known is None else known
            if not self._stale.isdisjoint(known):
                self._write_file(HIGH_WATERMARK_FILE_NAME, {key: known[key] for key in known if key in self.logs})

    def checkpoint_starts(self) -> None:
        """Write the checkpoint of log start offsets."""
        with self._folder.judging():
            self._write_starts()

    def _write_starts(self) -> None:
        with self._checkpoint_lock:
            starts = {key: (log, log.log_start_offset) for key, log in tuple(self.logs.items())}
            above = {key: start for key, (log, start) in starts.items() if start > first_file_offset(log)}
            self._write_file(LOG_START_FILE_NAME, above)
            for log, start in starts.values():
                log.checkpointed_start_offset = start

    def checkpoint_cleaner(self) -> None:
        """Write the checkpoint of the offsets up to which logs are compacted."""
        with self._checkpoint_lock:
            offsets = {
                key: log.cleaner_offset for key, log in tuple(self.logs.items()) if log.cleaner_offset is not None
            }
            if offsets or self._folder.fs.exists(self._path(CLEANER_FILE_NAME)):
                self._write_file(CLEANER_FILE_NAME, offsets)

    def _write_recovery_points(self) -> None:
        with self._checkpoint_lock:
            points = {key: log.checkpoint_offset for key, log in tuple(self.logs.items())}
            self._write_file(RECOVERY_POINT_FILE_NAME, points)

    def _write_file(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self._written.pop(name, None) != offsets:
            write_offsets(self._folder.fs, self._path(name), offsets)
        self._written[name] = offsets

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """Read the checkpoint of high watermarks. It is a hint, and some logs may be missing."""
        return read_offsets(self._folder.fs, self._path(HIGH_WATERMARK_FILE_NAME))

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the checkpoint of the high watermarks of the logs in this folder."""
        with self._folder.judging(), self._checkpoint_lock:
            here = {key: offset for key, offset in offsets.items() if key in self.logs}
            self._write_file(HIGH_WATERMARK_FILE_NAME, here)

    def close(self, *, clean: bool = True, stop: CleanStop = UNKNOWN_STOP, spread: Spread = map) -> None:
        """Close every log. Mark the stop as clean only if everything reached the disk.

        A failure is raised at the end, after all other logs were closed.
        """
        failures = list(filter(None, spread(partial(self._close_log, clean), self.logs.values())))
        failure = failures[0] if failures else None
        try:
            if clean and failure is None:
                self._folder.check()
                self.checkpoint()
                write_clean_mark(self._folder.fs, self.path, stop)
        finally:
            self._lock = None
        if failure is not None:
            raise failure

    def _close_log(self, clean: bool, log: Log) -> StorageError | None:
        try:
            if clean and not self.is_offline:
                log.close()
        except StorageError as error:
            return error
        finally:
            log.abandon()
        return None


def lock_folder(fs: FileSystem, path: str) -> object:
    """Lock a folder against other processes until the returned object is dropped."""
    try:
        return fs.lock(os.path.join(path, LOCK_FILE_NAME))
    except StorageError as error:
        if error.cause.errno != errno.EAGAIN:
            raise
        # Replace "Resource temporarily unavailable", which does not say what to do.
        reason = "another broker uses this log folder; stop it, or set another log.dirs"
        raise StorageError(path, OSError(errno.EAGAIN, reason)) from error
