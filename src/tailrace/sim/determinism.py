"""The patches that make a simulation deterministic.

Time comes from the loop, randomness and unique ids from the seed, and threads run in steps of the loop. The hashes of
strings, which differ between processes, are fixed by restarting Python: `fix_hashes`.

A process may have other threads, such as those of a real broker that serves other tests. They keep the real time: a
broker that sets a timer by the time of a simulation waits for hours after it.
"""

import asyncio
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, cast
from unittest.mock import patch

from tailrace.base import chance
from tailrace.base.event_loop import new_event_loop
from tailrace.client import loop_thread
from tailrace.sim.executor import SimExecutor
from tailrace.sim.loop import VirtualLoop
from tailrace.sim.thread import ClientLoop, LoopRunner, SimCondition, run_coroutine

P = ParamSpec("P")
T = TypeVar("T")

EPOCH_S = 1_700_000_000.0
"""The wall-clock time at which simulations begin, minus the loop's start time."""


@contextmanager
def deterministic(loop: VirtualLoop, seed: int) -> Iterator[None]:
    """Run the block with the loop's time and the seed's randomness."""
    dice = Random(f"entropy {seed}")
    state = random.getstate()
    random.seed(f"global {seed}")
    chance.generator().seed(f"own {seed}")
    now_s = loop.time
    in_simulation: dict[str, Callable[[], float]] = {
        "monotonic": now_s,
        "monotonic_ns": lambda: int(now_s() * 1e9),
        "time": lambda: EPOCH_S + now_s(),
        "time_ns": lambda: int((EPOCH_S + now_s()) * 1e9),
    }
    pools = [
        patch.object(module, "ThreadPoolExecutor", in_this_thread(cast("Any", SimExecutor), ThreadPoolExecutor))
        for name, module in list(sys.modules.items())
        if name.startswith("tailrace.") and getattr(module, "ThreadPoolExecutor", None) is ThreadPoolExecutor
    ]
    patches: list[Any] = [
        *pools,
        *_threads(loop),
        patch.object(os, "urandom", in_this_thread(dice.randbytes, os.urandom)),
        *(patch.object(time, name, in_this_thread(now, getattr(time, name))) for name, now in in_simulation.items()),
    ]
    try:
        for change in patches:
            change.start()
        yield
    finally:
        for change in reversed(patches):
            change.stop()
        random.setstate(state)
        chance.generator().seed()


def _threads(loop: VirtualLoop) -> list[Any]:
    """Return the patches that let clients with threads of their own take part."""
    new_loop = in_this_thread(lambda: cast("Any", ClientLoop(loop)), new_event_loop)
    runner = in_this_thread(cast("Any", LoopRunner), threading.Thread)
    names = SimpleNamespace(Thread=runner, current_thread=threading.current_thread)
    condition = in_this_thread(cast("Any", SimCondition), threading.Condition)
    run = in_this_thread(cast("Any", run_coroutine), asyncio.run_coroutine_threadsafe)
    return [
        patch.object(asyncio, "run_coroutine_threadsafe", run),
        patch.object(loop_thread, "new_event_loop", new_loop),
        patch.object(loop_thread, "threading", names),
        patch.object(threading, "Condition", condition),
    ]


def in_this_thread(here: Callable[P, T], elsewhere: Callable[P, T]) -> Callable[P, T]:
    """Make a function that is one in this thread and another in all others."""
    get_ident = threading.get_ident
    this = get_ident()

    def choose(*args: P.args, **options: P.kwargs) -> T:
        return (here if get_ident() == this else elsewhere)(*args, **options)

    return choose


def fix_hashes(module: str, arguments: list[str]) -> None:
    """Restart Python with a fixed hash seed, unless it has one."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606 - restarts this program
