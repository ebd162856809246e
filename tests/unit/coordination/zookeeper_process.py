"""A real ZooKeeper server in processes of its own, to be stopped, stalled and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest
from tests.faults.readiness import has_output
from tests.port import free_port

START_TIMEOUT_S = 60
QUICK = {"tickTime": "200", "minSessionTimeout": "400"}


def require_zookeeper() -> None:
    """Skip, and say why, where a ZooKeeper server cannot run."""
    from tailrace.coordination.zookeeper.server import ZooKeeperMissingError, find_jars
    from tailrace.spark.error import SessionError
    from tailrace.spark.java import find_runtime

    pytest.importorskip("kazoo", reason="kazoo is not installed")
    try:
        find_jars()
        find_runtime("ZooKeeper")
    except (ZooKeeperMissingError, SessionError) as reason:
        pytest.skip(str(reason))


def _is_stopped(pid: int) -> bool:
    tasks = list(Path(f"/proc/{pid}/task").glob("*/stat"))
    if not tasks:  # not on Linux
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    try:
        # The state follows the name, which is in brackets and may hold anything.
        return all(task.read_text().rpartition(")")[2].split()[0] == "T" for task in tasks)
    except OSError:
        return False  # a thread came to its end, so some still ran


class ZooKeeperProcess:
    """Starts with the same address and folder again and again."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = QUICK, arguments: tuple[str, ...] = ()) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._folder = folder
        self._arguments = [*arguments, *(part for pair in settings.items() for part in ("--set", "=".join(pair)))]
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tailrace.cli.main", "zookeeper", "start", "--listen", self.address]
        command += ["--data", str(self._folder / "data"), *self._arguments]
        with (self._folder / "stderr.txt").open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)

    def wait_until_ready(self) -> None:
        assert self._process is not None
        output = self._process.stdout
        assert output is not None
        assert has_output(output, START_TIMEOUT_S), f"not ready within {START_TIMEOUT_S} s"
        assert output.readline() == f"tailrace: zookeeper ready on {self.address}\n".encode(), self.log[-2000:]

    def start(self) -> ZooKeeperProcess:
        self.launch()
        self.wait_until_ready()
        return self

    @property
    def log(self) -> str:
        return (self._folder / "stderr.txt").read_text()

    @property
    def java_pid(self) -> int:
        assert self._process is not None
        (java,) = psutil.Process(self._process.pid).children()
        return int(java.pid)

    def pause(self) -> None:
        """Stall the server; when this returns, no thread of it runs.

        The signal takes effect when the first of its threads comes to run, and on a busy machine others served a
        request before that.
        """
        pid = self.java_pid
        os.kill(pid, signal.SIGSTOP)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not _is_stopped(pid):
            assert time.monotonic() < deadline_s, f"{pid} does not stop"
            time.sleep(0.001)

    def resume(self) -> None:
        os.kill(self.java_pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the server as a power cut does."""
        os.kill(self.java_pid, signal.SIGKILL)
        self._end()

    def kill_parent(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._end()

    def stop(self) -> int:
        if self._process is None:
            return 0
        self._process.terminate()
        return self._end()

    def _end(self) -> int:
        assert self._process is not None
        with self._process as process:
            self._process = None
            return process.wait(START_TIMEOUT_S)
