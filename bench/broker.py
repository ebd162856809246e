"""The brokers that a benchmark measures, each in its own process with its own data."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import psutil

from bench.kafka import ApacheKafka

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0


class Target(Protocol):
    """A broker that is measured."""

    @property
    def pid(self) -> int: ...

    @property
    def bootstrap_servers(self) -> str: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class TailraceBroker:
    """`tailrace start` as a user runs it, with a temporary data folder."""

    def __init__(self, settings: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._settings = settings or {}
        self._environment = {**os.environ, **(environment or {})}
        self.bootstrap_servers = ""
        self.ready_after_s = 0.0
        self._data: Path | None = None
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The broker's process id."""
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process.pid

    def __enter__(self) -> Self:
        self._data = Path(tempfile.mkdtemp(prefix="tailrace-bench-"))
        command = [_program(), "start", "--data", str(self._data / "data")]
        command += [] if "listeners" in self._settings else ["--listen", "127.0.0.1:0"]
        command += [part for name, value in self._settings.items() for part in ("--set", f"{name}={value}")]
        with (self._data / "broker.log").open("w") as log:
            started = time.perf_counter()
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=self._environment
            )
        try:
            self.bootstrap_servers = self._wait_until_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.ready_after_s = time.perf_counter() - started
        return self

    def _wait_until_ready(self) -> str:
        process = self._process
        if process is None or process.stdout is None or self._data is None:
            raise RuntimeError("the broker is not running")
        # Kill a broker that hangs, so that the read below ends.
        watchdog = threading.Timer(READY_TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            line = process.stdout.readline()
        finally:
            watchdog.cancel()
        if " ready on " not in line:
            log = (self._data / "broker.log").read_text(errors="replace")
            raise RuntimeError(f"tailrace start did not get ready; it printed {line!r}\n{log}")
        return line.rsplit(" ", 1)[-1].strip()

    def log_text(self) -> str:
        """Return the broker's log so far."""
        return "" if self._data is None else (self._data / "broker.log").read_text(errors="replace")

    def stop(self) -> int:
        """Stop the broker with SIGTERM and return its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return status

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._data is not None:
            shutil.rmtree(self._data, ignore_errors=True)


def _program() -> str:
    """Return the path of this environment's `tailrace`, regardless of the search path."""
    beside = Path(sys.executable).with_name("tailrace")
    return str(beside) if beside.exists() else "tailrace"


def kafka_broker() -> ApacheKafka:
    """Return an Apache Kafka with a heap that is large enough for a benchmark."""
    return ApacheKafka(heap_mb=1024)


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of all threads of a process so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
