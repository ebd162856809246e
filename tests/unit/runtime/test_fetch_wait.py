"""A long poll: one timer, and appends that wake it. It never looks by itself."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.settled import settled

from tailrace.runtime.fetch_wait import FetchWait
from tailrace.runtime.partition import Partition
from tailrace.runtime.waiter import Waiters


class Board:
    """The side of a partition that those who wait see."""

    def __init__(self) -> None:
        self.waiters = Waiters()

    def append(self, size_bytes: int) -> None:
        self.waiters.readable(size_bytes)


class Timers:
    """Takes the place of the event loop's timers: they fire when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.set: list[tuple[float, Callable[[], None], asyncio.TimerHandle]] = []
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_later", self.call_later)
        monkeypatch.setattr(loop, "call_at", self.call_at)

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: Any) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(delay, callback, arguments, asyncio.get_running_loop())
        self.set.append((delay, lambda: callback(*arguments), handle))
        return handle

    def call_at(self, when: float, callback: Callable[..., None], *arguments: Any) -> asyncio.TimerHandle:
        return self.call_later(when, callback, *arguments)


async def begin(missing_bytes: int, boards: list[Board], timeout_s: float = 30.0) -> asyncio.Task[bool]:
    """A wait that has begun to wait."""
    partitions = cast("list[Partition]", boards)
    task = asyncio.get_running_loop().create_task(FetchWait(missing_bytes).wait(partitions, timeout_s))
    await settled()
    return task


async def test_enough_bytes_wake_it_wherever_they_are_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    timers, boards = Timers(monkeypatch), [Board(), Board()]
    task = await begin(100, boards)
    boards[0].append(60)
    await settled()
    assert not task.done()
    boards[1].append(40)
    await settled()
    assert task.done()
    assert await task is True
    assert [delay for delay, _, _ in timers.set] == [30.0]


async def test_a_disturbance_wakes_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    Timers(monkeypatch)
    board = Board()
    task = await begin(100, [board])
    board.waiters.disturb()
    assert await task is True


async def test_the_end_of_the_time_wakes_it_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    timers, board = Timers(monkeypatch), Board()
    task = await begin(100, [board], 0.5)
    board.append(99)
    ((delay, fire, _),) = timers.set
    assert delay == 0.5
    fire()
    assert await task is False


async def test_only_one_timer_exists_and_it_ends_with_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    timers, board = Timers(monkeypatch), Board()
    task = await begin(100, [board])
    for _ in range(50):
        board.append(1)
        await settled()
    assert len(timers.set) == 1
    board.append(50)
    await task
    assert len(timers.set) == 1
    assert timers.set[0][2].cancelled()
    timers.set[0][1]()  # too late to matter


@pytest.mark.parametrize("end", ["woken", "cancelled", "over"])
async def test_afterwards_nobody_waits_any_more(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    timers, boards = Timers(monkeypatch), [Board(), Board()]
    task = await begin(10, boards)
    assert [len(board.waiters.readers) for board in boards] == [1, 1]
    if end == "woken":
        boards[0].append(10)
    elif end == "over":
        timers.set[0][1]()
    else:
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not any(board.waiters.readers for board in boards)
    assert timers.set[0][2].cancelled() or end == "over"


async def test_more_may_happen_between_waking_and_running(monkeypatch: pytest.MonkeyPatch) -> None:
    Timers(monkeypatch)
    board = Board()
    task = await begin(10, [board])
    for _ in range(3):
        board.append(10)
    board.waiters.disturb()
    assert await task is True


async def test_two_waits_wake_each_when_it_has_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    Timers(monkeypatch)
    board = Board()
    modest, greedy = await begin(10, [board]), await begin(20, [board])
    board.append(10)
    await settled()
    assert (modest.done(), greedy.done()) == (True, False)
    board.append(10)
    await asyncio.gather(modest, greedy)
