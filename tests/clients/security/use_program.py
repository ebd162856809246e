"""Clients that are programs of their own: those in other languages, and kafka-python where it is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from bench.cache import Unavailable
from tests.clients.program import Program
from tests.clients.security.access import Access
from tests.clients.security.outcome import Outcome, Refused, Use

CHECKOUT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 120.0


def use_module(name: str) -> Use:
    """A module of this folder in a process of its own."""
    return _use(lambda: ([sys.executable, "-m", f"tests.clients.security.{name}"], None))


def use_program(program: Program) -> Use:
    """A program in another language; a test skips where it cannot be had."""

    def ready() -> tuple[list[str], dict[str, str]]:
        try:
            return program.ready()
        except Unavailable as reason:
            pytest.skip(str(reason))

    return _use(ready)


def _use(ready: Callable[[], tuple[Sequence[str], Mapping[str, str] | None]]) -> Use:
    def use(access: Access, topic: str, count: int, pause_ms: int) -> Outcome:
        command, environment = ready()
        with tempfile.TemporaryDirectory() as folder:
            file = access.write(Path(folder))
            done = subprocess.run(
                [*command, str(file), topic, str(count), str(pause_ms)],
                cwd=CHECKOUT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        assert done.returncode == 0, done.stdout + done.stderr[-4000:]
        told = json.loads(done.stdout.splitlines()[-1])
        if "refused" in told:
            raise Refused(told["refused"])
        return Outcome(told["values"])

    return use
