"""The tasks that run for as long as a broker does."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from tailrace.base.limits import BACKGROUND_RESTART_S

log = logging.getLogger("tailrace.runtime")

Run = Callable[[], Coroutine[Any, Any, None]]


class BackgroundTasks:
    """Tasks that start one by one and stop together."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, run: Run) -> None:
        """Run a task that is restarted if it crashes."""
        self.spawn(run_restarted(run))

    def spawn(self, task: Coroutine[Any, Any, None]) -> None:
        """Run a task that handles its own failures."""
        self._tasks.append(asyncio.get_running_loop().create_task(task))

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_restarted(run: Run) -> None:
    """Run a task until it returns. If it crashes, log the error and start it again after a delay.

    Without the restart the controller would elect no more leaders, or an ISR would never change again, unnoticed.
    """
    while True:
        try:
            return await run()
        except Exception:
            log.exception(
                "background task %s crashed; restarting it in %g s",
                getattr(run, "__qualname__", run),
                BACKGROUND_RESTART_S,
            )
        await asyncio.sleep(BACKGROUND_RESTART_S)
