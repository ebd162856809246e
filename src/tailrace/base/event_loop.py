"""The event loop: uvloop, or asyncio's own if uvloop is not installed."""

import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop, as a factory for `asyncio.Runner`."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
