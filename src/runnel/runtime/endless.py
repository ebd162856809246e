"""What a broker does for as long as it runs."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from runnel.base.limits import ENDLESS_AGAIN_S

log = logging.getLogger("runnel.runtime")

Endless = Callable[[], Coroutine[Any, Any, None]]


async def run_endless(run: Endless) -> None:
    """Run it until it ends by itself. A bug in it is told, and it begins again after a pause.

    It must not just end: the controller would elect nobody any more, or an ISR stay as it is, without a word.
    """
    while True:
        try:
            return await run()
        except Exception:
            log.exception("%s failed and begins again", getattr(run, "__qualname__", run))
        await asyncio.sleep(ENDLESS_AGAIN_S)
