"""A registry that a command starts for one story."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.port import free_port
from tests.unit.registry.answers.call import get
from tests.unit.registry.answers.record import ask

START_S = 60.0


@dataclass(frozen=True)
class Running:
    """A registry that answers: its URL, and the word that stands for `{story}` in the names of its topic and group."""

    url: str
    word: str


@contextmanager
def started(command: str, name: str) -> Iterator[Running]:
    """Run an empty registry for one story."""
    port = free_port()
    running = Running(f"http://127.0.0.1:{port}", f"{name.replace('.', '_')}_{port}")
    words = [word.format(port=port, story=running.word) for word in shlex.split(command)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await_answer(running.url, process)
        yield running
    finally:
        process.terminate()
        process.wait()


def _await_answer(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            if ask(get("/subjects"), url)["status"] == 200:
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
        time.sleep(0.2)
