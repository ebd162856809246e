"""Work that continues when its caller is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tailrace.base.task import ignore_exception


async def finish_anyway(work: Coroutine[Any, Any, None]) -> None:
    """Wait for `work`, which is not cancelled with the caller. Its errors are then ignored."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(ignore_exception)
        raise
