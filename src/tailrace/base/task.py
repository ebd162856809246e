"""Tasks that may fail when nothing waits for them any more."""

import asyncio
from typing import Any


def ignore_exception(task: "asyncio.Future[Any]") -> None:
    """Look at the exception of a task that is done, else asyncio reports that it was never retrieved.

    It is a done callback for tasks whose waiters may have been cancelled; those that are left still get the exception.
    """
    if not task.cancelled():
        task.exception()
