"""Cleaning up after what failed, so that the caller sees the failure and not what came of it."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

log = logging.getLogger("runnel")


@asynccontextmanager
async def undone_by(undo: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Call `undo` if the block fails. An error of `undo` is logged; the block's own error is raised in any case."""
    try:
        yield
    except BaseException:
        try:
            await undo()
        except Exception:
            log.exception("cleaning up after a failure failed, too")
        raise
