"""Work that goes on when whoever waits for it is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def finish_anyway(work: Coroutine[Any, Any, None]) -> None:
    """Wait for `work`, which is not cancelled with the caller; what it raises then concerns nobody."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_ignore)
        raise


def _ignore(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()  # or asyncio complains that nobody has looked at it
