"""Letting an event loop do all it can, for tests that show that something does not happen."""

import asyncio

_TURNS_MAX = 10_000


async def settled() -> None:
    """Return when nothing is left that could run without a timer, a socket or another thread.

    A fixed number of turns is one too few as soon as the code under test awaits once more, and then a test
    that nothing has happened shows nothing. No public function tells whether a loop has work.
    """
    loop = asyncio.get_running_loop()
    for _ in range(_TURNS_MAX):
        await asyncio.sleep(0)
        if not loop._ready:  # type: ignore[attr-defined]
            return
    raise AssertionError(f"something has been busy for {_TURNS_MAX} turns of the loop")
