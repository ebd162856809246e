"""The event loop that everything runs on: uvloop, or asyncio's own where uvloop is missing."""

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new loop, as `asyncio.Runner` wants one from its factory."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
