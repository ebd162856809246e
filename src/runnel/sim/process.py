"""A program in the simulated world: everything that runs in its context belongs to it, and ends with it.

Tasks and callbacks inherit the context of whoever started them. So one context variable tells for every step of the
event loop whose it is, and the steps of a program that was killed or stopped never run, or run later.
"""

import asyncio
from collections.abc import Coroutine
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from typing import Any


class Life(Enum):
    """What a program is doing."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Process:
    """One life of one program on one host."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.life = Life.RUNNING
        self.held: list[asyncio.Handle] = []
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)

    @property
    def is_alive(self) -> bool:
        return self.life is not Life.DEAD

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run something as a part of this program."""
        return asyncio.get_running_loop().create_task(work, context=self.context.copy())

    def __repr__(self) -> str:
        return f"<{self.name} {self.life.value}>"


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
"""Whose step this is; None for the world itself."""
