"""Time that only passes when no step is left to run, and programs that are paused and killed in it."""

import asyncio
import random
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.unit.sim.scene import make_loop, play, running_loop

from tailrace.sim.executor import SimExecutor
from tailrace.sim.loop import START_S, Stuck
from tailrace.sim.process import Life, Process


def test_an_hour_passes_at_once_and_every_clock_says_so() -> None:
    async def scene() -> float:
        began = time.monotonic()
        await asyncio.sleep(3600)
        assert asyncio.get_running_loop().time() == time.monotonic()
        return time.monotonic() - began

    assert play(scene()) == pytest.approx(3600, abs=0.1)


def test_other_threads_keep_the_real_time() -> None:
    """A real broker in one of them would set its timers by the time of the simulation, and wait for hours after it."""

    def read_clocks() -> tuple[float, ...]:
        return time.monotonic(), time.monotonic_ns() / 1e9, time.time(), time.time_ns() / 1e9

    async def scene() -> tuple[float, ...]:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(read_clocks).result()

    before, found, after = read_clocks(), play(scene()), read_clocks()
    assert all(earlier <= then <= later for earlier, then, later in zip(before, found, after, strict=True))


def test_sleepers_wake_in_the_order_of_their_times() -> None:
    woken: list[float] = []

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(seconds)

    async def scene() -> None:
        await asyncio.gather(*(sleep(seconds) for seconds in (3, 1, 2, 0.5)))

    play(scene())
    assert woken == [0.5, 1, 2, 3]


def test_work_for_one_thread_is_done_in_order_and_takes_time() -> None:
    done: list[int] = []

    async def scene() -> None:
        loop, one_thread = asyncio.get_running_loop(), SimExecutor(1)
        await asyncio.gather(*(loop.run_in_executor(one_thread, done.append, number) for number in range(20)))
        assert loop.time() > START_S + 0.001

    play(scene())
    assert done == list(range(20))


def test_work_of_several_threads_is_done_in_any_order() -> None:
    done: list[int] = []

    async def scene() -> None:
        loop, threads = asyncio.get_running_loop(), SimExecutor(4)
        await asyncio.gather(*(loop.run_in_executor(threads, done.append, number) for number in range(20)))

    play(scene())
    assert done != sorted(done)
    assert sorted(done) == list(range(20))


def test_an_error_in_a_thread_comes_to_whoever_waits() -> None:
    async def scene() -> None:
        await asyncio.get_running_loop().run_in_executor(None, int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        play(scene())


def test_one_seed_is_one_story() -> None:
    async def scene() -> list[object]:
        found: list[object] = [uuid.uuid4(), random.random(), time.time()]
        await asyncio.get_running_loop().run_in_executor(None, int)
        return [*found, time.time()]

    loops = [make_loop(7), make_loop(7), make_loop(8)]
    stories = [play(scene(), loop=loop, seed=seed) for loop, seed in zip(loops, (7, 7, 8), strict=True)]
    assert stories[0] == stories[1] != stories[2]
    assert loops[0].digest == loops[1].digest != loops[2].digest


def test_what_ends_with_the_world_makes_no_real_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing had run on a real loop before, asyncio made one for a task that gathered others on its way out.
    Nobody closed it, and its sockets were found in whatever test the garbage was collected in."""

    async def gather_at_the_end() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            await asyncio.gather(return_exceptions=True)

    async def scene() -> None:
        asyncio.get_running_loop().create_task(gather_at_the_end())
        await asyncio.sleep(1)

    policy = asyncio.DefaultEventLoopPolicy()  # one that has no loop yet, as in a new process
    made: list[asyncio.AbstractEventLoop] = []

    def make_real_loop() -> asyncio.AbstractEventLoop:
        made.append(asyncio.SelectorEventLoop())
        return made[-1]

    monkeypatch.setattr(policy, "new_event_loop", make_real_loop)
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(policy)
    try:
        play(scene())
    finally:
        asyncio.set_event_loop_policy(before)
        for loop in made:
            loop.close()
    assert made == []


def test_waiting_for_what_never_comes_is_noticed() -> None:
    async def scene() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck, match="no step is left to run"):
        play(scene())


def test_what_nobody_caught_ends_the_story() -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    async def scene() -> None:
        running_loop().watch(Process("program", "host").spawn(fail()))
        await asyncio.sleep(1e9)

    with pytest.raises(Stuck, match="a bug"):
        play(scene())


class Ticker:
    """A program that counts seconds."""

    def __init__(self) -> None:
        self.count = 0
        self.was_closed = False
        self.process = Process("ticker", "host")
        self.process.spawn(self._run())

    async def _run(self) -> None:
        try:
            while True:
                await asyncio.create_task(asyncio.sleep(1))
                self.count += 1
        finally:
            self.was_closed = True


def test_a_killed_program_does_nothing_more_not_even_clean_up() -> None:
    async def scene() -> Ticker:
        ticker = Ticker()
        await asyncio.sleep(3.5)
        ticker.process.life = Life.DEAD
        await asyncio.sleep(10)
        assert not ticker.was_closed
        return ticker

    assert play(scene()).count == 3


def test_a_paused_program_goes_on_where_it_was() -> None:
    async def scene() -> Ticker:
        ticker = Ticker()
        await asyncio.sleep(3.5)
        ticker.process.life = Life.PAUSED
        await asyncio.sleep(10)
        assert ticker.count == 3
        running_loop().resume(ticker.process)
        await asyncio.sleep(2.1)
        return ticker

    assert play(scene()).count == 6
