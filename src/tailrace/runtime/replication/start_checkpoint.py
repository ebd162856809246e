"""The checkpoints of log start offsets, which followers write before they tell their leaders."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor

from tailrace.base.clock import Clock
from tailrace.config.broker import BrokerConfig
from tailrace.storage.error import StorageError
from tailrace.storage.folder import Folder
from tailrace.storage.log import Log

log = logging.getLogger("tailrace.runtime")


class StartCheckpoints:
    """Writes the log start offsets of folders, and retries a folder for which that has failed.

    All fetchers of a broker share it, so that a failing folder is logged once and not once for each fetcher.
    """

    def __init__(self, config: Callable[[], BrokerConfig], clock: Clock, worker: Executor) -> None:
        self._config = config
        self._clock = clock
        self._worker = worker
        self._retry_ms: dict[Folder, float] = {}  # the failing folders, and when to write to each again

    async def save(self, logs: Iterable[Log]) -> None:
        """Write the checkpoints of these logs, and of other failing folders whose retry is due.

        A deletion of records waits for the checkpoint, and a quiet partition may have no later reply to retry it.
        """
        now_ms = self._clock.monotonic_ms()
        for folder in dict.fromkeys((*self._retry_ms, *(storage.folder for storage in logs))):
            if folder.is_offline:
                self._retry_ms.pop(folder, None)
            elif self._retry_ms.get(folder, now_ms) <= now_ms:
                await self._write(folder)

    async def _write(self, folder: Folder) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._worker, folder.save_starts)
        except StorageError as error:
            if folder not in self._retry_ms and not folder.is_offline:
                log.warning(
                    "cannot write log start offsets to %s: %s; deletions of records wait until this succeeds",
                    *(folder.path, error),
                )
            self._retry_ms[folder] = self._clock.monotonic_ms() + self._config().replica_fetch_backoff_ms
        else:
            if self._retry_ms.pop(folder, None) is not None:
                log.info("log start offsets can be written to %s again", folder.path)
