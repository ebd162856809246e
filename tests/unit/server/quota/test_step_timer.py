"""The time that a coroutine uses, without the time for which it waits."""

import asyncio

import pytest

from tailrace.server.quota.step_timer import StepTimer


class Ticks:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


async def test_only_steps_count() -> None:
    clock = Ticks()
    gate = asyncio.Event()

    async def work() -> str:
        clock.now_ns += 10
        await gate.wait()
        clock.now_ns += 5
        await asyncio.sleep(0)
        clock.now_ns += 1
        return "done"

    async def use(timer: StepTimer[str]) -> str:
        return await timer

    timer = StepTimer(work(), clock)
    task = asyncio.create_task(use(timer))
    await asyncio.sleep(0)
    clock.now_ns += 1_000_000  # others use the loop while it waits
    gate.set()
    assert await task == "done"
    assert timer.used_ns == 16


async def test_errors_and_cancellations_pass() -> None:
    seen: list[str] = []

    async def fails() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        await StepTimer(fails(), Ticks())

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def use() -> None:
        await StepTimer(waits(), Ticks())

    task = asyncio.create_task(use())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_an_error_of_what_is_awaited_can_be_handled() -> None:
    async def handles() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "late"
        return "never"

    assert await StepTimer(handles(), Ticks()) == "late"
