"""Threads of simulated programs: they wait without holding up the loop, and one seed resumes them in one order."""

import asyncio
import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest
from tests.unit.sim.scene import make_loop, play

from tailrace.client.loop_thread import LoopThread
from tailrace.sim.executor import OwnThread
from tailrace.sim.process import Life, Process


def in_thread(function: Any, *arguments: Any) -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().run_in_executor(OwnThread(), function, *arguments)


def test_a_thread_waits_for_a_condition_while_the_loop_goes_on() -> None:
    async def scene() -> tuple[bool, list[str]]:
        arrived, happened = threading.Condition(), list[str]()

        def wait() -> bool:
            with arrived:
                return arrived.wait_for(lambda: "told" in happened, 60)

        waiting = in_thread(wait)
        await asyncio.sleep(1)
        with arrived:
            happened.append("nothing")
            arrived.notify_all()
        await asyncio.sleep(1)
        assert not waiting.done()
        with arrived:
            happened.append("told")
            arrived.notify_all()
        return await waiting, happened

    assert play(scene()) == (True, ["nothing", "told"])


def test_a_wait_ends_at_its_time_out() -> None:
    async def scene() -> tuple[bool, float]:
        began, arrived = time.monotonic(), threading.Condition()

        def wait() -> bool:
            with arrived:
                return arrived.wait(5)

        return await in_thread(wait), time.monotonic() - began

    is_told, seconds = play(scene())
    assert not is_told
    assert seconds == pytest.approx(5, abs=0.1)


def test_a_result_of_the_loop_is_awaited_in_the_thread() -> None:
    """So `tailrace.Producer` and its like run unchanged: their own thread is the loop of the simulation."""

    async def answer() -> str:
        await asyncio.sleep(3)
        return "three"

    async def scene() -> str:
        thread = LoopThread("client")
        found: str = await in_thread(thread.call, answer())
        await in_thread(thread.close)
        return found

    assert play(scene()) == "three"


def test_an_error_in_a_thread_reaches_its_waiter() -> None:
    async def scene() -> None:
        await in_thread(int, "three")

    with pytest.raises(ValueError, match="three"):
        play(scene())


def test_a_thread_of_a_killed_program_never_goes_on() -> None:
    steps: list[str] = []

    async def scene() -> None:
        program, future = Process("program", "host"), Future[None]()

        def wait() -> None:
            steps.append("waits")
            future.result()
            steps.append("goes on")

        program.spawn(_call(wait))
        await asyncio.sleep(1)
        program.life = Life.DEAD
        future.set_result(None)
        await asyncio.sleep(1)

    play(scene())
    assert steps == ["waits"]


def test_a_thread_acts_between_two_steps_of_its_program() -> None:
    """The loop of a client is busy with many steps, and a call of the application comes in the middle of them."""
    order: list[str] = []

    async def work() -> None:
        for _ in range(50):
            order.append("step")
            await asyncio.sleep(0)

    async def scene() -> None:
        program = Process("program", "host")
        program.spawn(_call(order.append, "call"))
        await program.spawn(work())

    play(scene())
    place = order.index("call")
    assert 0 < place < len(order) - 1


def test_the_end_of_a_simulation_ends_its_threads() -> None:
    ended: list[str] = []
    loop = make_loop(1)

    async def scene() -> None:
        def wait() -> None:
            try:
                Future[None]().result()
            finally:
                ended.append("ended")

        in_thread(wait)
        await asyncio.sleep(1)

    play(scene(), loop=loop)
    assert ended == ["ended"]


async def _call(function: Any, *arguments: Any) -> None:
    await in_thread(function, *arguments)
