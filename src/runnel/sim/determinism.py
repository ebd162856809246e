"""What would make two runs of one seed differ, taken away for as long as a simulation runs.

Time comes from the loop, randomness and unique ids from the seed, and threads are none. What differs between
processes, the hashes of strings, is fixed by starting Python again: `fix_hashes`.
"""

import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from runnel.sim.executor import SimExecutor
from runnel.sim.loop import VirtualLoop

EPOCH_S = 1_700_000_000.0
"""The wall time at which simulations begin, less the loop's own start."""


@contextmanager
def deterministic(loop: VirtualLoop, seed: int) -> Iterator[None]:
    """Run what is inside on the loop's time and the seed's randomness."""
    dice = Random(f"entropy {seed}")
    state = random.getstate()
    random.seed(f"global {seed}")
    now_s = loop.time
    pools = [
        patch.object(module, "ThreadPoolExecutor", SimExecutor)
        for name, module in list(sys.modules.items())
        if name.startswith("runnel.") and getattr(module, "ThreadPoolExecutor", None) is ThreadPoolExecutor
    ]
    patches: list[Any] = [
        *pools,
        patch.object(os, "urandom", dice.randbytes),
        patch.object(time, "monotonic", now_s),
        patch.object(time, "monotonic_ns", lambda: int(now_s() * 1e9)),
        patch.object(time, "time", lambda: EPOCH_S + now_s()),
        patch.object(time, "time_ns", lambda: int((EPOCH_S + now_s()) * 1e9)),
    ]
    try:
        for change in patches:
            change.start()
        yield
    finally:
        for change in reversed(patches):
            change.stop()
        random.setstate(state)


def fix_hashes(module: str, arguments: list[str]) -> None:
    """Start this Python again with a fixed seed for the hashes of strings, unless it has one."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606 - it is ourselves
