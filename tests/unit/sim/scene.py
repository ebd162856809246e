"""A loop with programs on it, for tests that need no brokers."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tailrace.sim.determinism import deterministic
from tailrace.sim.loop import VirtualLoop


def make_loop(seed: int) -> VirtualLoop:
    """Make a loop that nothing runs on yet."""
    return VirtualLoop(seed)  # type: ignore[abstract]  # only in the eyes of mypy


def running_loop() -> VirtualLoop:
    """Return the loop on which a scene runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def play(work: Coroutine[Any, Any, Any], *, loop: VirtualLoop | None = None, seed: int = 1) -> Any:
    """Run a scene to its end; what nobody caught fails it."""
    loop = loop or make_loop(seed)
    with deterministic(loop, seed):
        try:
            return loop.run_until_complete(work)
        finally:
            loop.close()


class Echo(asyncio.Protocol):
    """Sends back what it gets, and notes what happens to it."""

    def __init__(self, *, answers: bool = True) -> None:
        self.happened: list[object] = []
        self.received = b""
        self.answers = answers
        self.transport: Any = None
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.answers:
            self.transport.write(data)

    def eof_received(self) -> bool:
        self.happened.append("eof")
        return False

    def pause_writing(self) -> None:
        self.happened.append("pause")

    def resume_writing(self) -> None:
        self.happened.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.happened.append(type(exc))
        if not self.lost.done():
            self.lost.set_result(exc)
