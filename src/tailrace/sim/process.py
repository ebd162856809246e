"""A program in the simulation: everything that runs in its context belongs to it, and ends with it.

Tasks and callbacks inherit the context of their creator. So one context variable identifies the program of every step
of the event loop. The steps of a killed program never run, and those of a paused one run later.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from typing import Any


class Life(Enum):
    """The state of a program."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Process:
    """One process of one program on one host."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.life = Life.RUNNING
        self.ready: deque[asyncio.Handle] = deque()  # the next steps, in their order
        self.is_scheduled = False
        self.free_at_s = 0.0  # the end of the current step
        self.step_ratio: float | None = None  # of the longest and the shortest step; the loop draws it
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)

    @property
    def is_alive(self) -> bool:
        return self.life is not Life.DEAD

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run a coroutine as part of this program."""
        return asyncio.get_running_loop().create_task(work, context=self.context.copy())

    def __repr__(self) -> str:
        return f"<{self.name} {self.life.value}>"


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
"""The program of the current step; None for the simulation itself."""
