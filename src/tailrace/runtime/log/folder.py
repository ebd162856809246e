"""The log folders of a broker: opened at the same time, closed with a mark of the clean stop."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tailrace.base.clock import Clock
from tailrace.base.limits import SYNCING_LOGS_MAX, WORKER_THREADS_MAX
from tailrace.machines.controller.image import ClusterImage
from tailrace.storage.checkpoint import CleanStop
from tailrace.storage.error import StorageError
from tailrace.storage.fs import FileSystem
from tailrace.storage.handle_pool import HandlePool
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir

log = logging.getLogger("tailrace.runtime")

UNCLEAN = -2
"""In place of the epoch in which a broker was admitted: the broker cannot tell that it lost nothing."""


async def open_folders(
    fs: FileSystem,
    paths: Sequence[Path],
    clock: Clock,
    config_of: Callable[[str], LogConfig],
    handles: HandlePool,
) -> tuple[LogDir, ...]:
    """Open all folders at the same time, because each may be on a disk of its own, and recover their logs.

    If one of them fails, close the others and raise its error.
    """
    opened: list[LogDir] = []

    def open_one(path: Path) -> LogDir:
        log_dir = LogDir.open(fs, str(path), clock, config_of, handles=handles)
        opened.append(log_dir)
        if log_dir.logs and not log_dir.was_clean:
            log.warning("%s was not stopped cleanly; its %d logs were recovered", path, len(log_dir.logs))
        return log_dir

    try:
        # Within one folder the logs are opened one after the other: that is mostly Python, and threads gain nothing.
        with ThreadPoolExecutor(WORKER_THREADS_MAX, thread_name_prefix="tailrace-opening") as pool:
            run = asyncio.get_running_loop().run_in_executor
            outcomes = await asyncio.gather(*(run(pool, open_one, path) for path in paths), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
    except BaseException:
        close_folders(opened, None)
        raise
    return tuple(log_dir for log_dir in outcomes if isinstance(log_dir, LogDir))


def close_folders(log_dirs: Sequence[LogDir], stop: CleanStop | None) -> None:
    """Close all folders and mark each as stopped cleanly; with `stop` None each keeps the mark that it had."""
    with ThreadPoolExecutor(SYNCING_LOGS_MAX, thread_name_prefix="tailrace-closing") as closing:
        for log_dir in log_dirs:
            try:
                log_dir.close(stop=stop or log_dir.clean_stop or CleanStop(UNCLEAN), spread=closing.map)
            except StorageError as error:
                log.error("log folder %s could not be closed cleanly: %s", log_dir.path, error)


def agreed_stop(log_dirs: Sequence[LogDir]) -> CleanStop | None:
    """Return the clean stop that all folders are marked with; None if there was none or the marks differ."""
    stops = {log_dir.clean_stop for log_dir in log_dirs}
    return stops.pop() if len(stops) == 1 else None


def set_strays_aside(log_dirs: Sequence[LogDir], image: ClusterImage, broker_id: int) -> None:
    """Rename logs that this broker should not have, such as those that a kill during a deletion left behind."""
    for log_dir in log_dirs:
        for topic, index in [key for key in log_dir.logs if not _is_assigned(image, broker_id, *key)]:
            reason = "is assigned to other brokers" if topic in image.topics else "belongs to no topic"
            try:
                name = log_dir.set_aside(topic, index)
                log.warning("%s-%d %s; its log was renamed to %s", topic, index, reason, name)
            except StorageError as error:
                log.error("%s-%d %s; its log could not be renamed: %s", topic, index, reason, error)


def _is_assigned(image: ClusterImage, broker_id: int, topic: str, index: int) -> bool:
    known = image.topics.get(topic)
    return known is not None and index < known.partition_count and broker_id in known.assignment[index]
