"""Cleanup after a failure, so that the caller sees the first error and not the errors that followed from it."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

log = logging.getLogger("tailrace")


@asynccontextmanager
async def undone_by(undo: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Call `undo` if the block fails. An error of `undo` is logged; the block's own error is always raised."""
    try:
        yield
    except BaseException:
        try:
            await undo()
        except Exception:
            log.exception("cleanup after a failure failed, too")
        raise


@asynccontextmanager
async def undone_on_failure() -> AsyncIterator[AsyncExitStack]:
    """Yield a stack of undo steps that runs, last step first, if the block fails.

    If the block succeeds the steps are kept. The block passes the stack on to the object that it opened, which closes
    the stack when it stops: start-up that fails half way and a normal stop run the same steps in the same order.
    """
    steps = AsyncExitStack()
    async with undone_by(steps.aclose):
        yield steps
