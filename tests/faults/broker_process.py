"""A broker in a process of its own, to be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.faults.readiness import has_output
from tests.port import free_port

START_TIMEOUT_S = 60
# Small segments, so that kills also hit rolls; the flush thread has something to do then.
SMALL_SEGMENTS = {"log.segment.bytes": "1048576"}


class BrokerProcess:
    """Starts with the same address and folder again and again, as an operator would have it."""

    def __init__(self, folder: Path, options: Mapping[str, str] = SMALL_SEGMENTS) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._folder = folder
        self._options = options
        self._log = folder / "stderr.txt"
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start, and do not wait."""
        command = [sys.executable, "-m", "tailrace.cli.main", "start"]
        command += ["--data", str(self._folder / "data"), "--listen", self.address]
        for name, value in self._options.items():
            command += ["--set", f"{name}={value}"]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)

    def wait_until_ready(self, timeout_s: float = START_TIMEOUT_S) -> bool:
        """Whether it says that it is ready before the time is up."""
        output = self._running.stdout
        assert output is not None
        if not has_output(output, timeout_s):
            return False
        line = output.readline()
        assert b"ready on" in line, self.log[-2000:]
        return True

    def start(self) -> None:
        """Start, and return when it says that it is ready."""
        self.launch()
        assert self.wait_until_ready(), f"not ready within {START_TIMEOUT_S} s"

    def kill(self) -> None:
        self._running.kill()
        self._end()

    def stop(self) -> int:
        self._running.terminate()
        return self._end()

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _end(self) -> int:
        code = self._running.wait(START_TIMEOUT_S)
        assert self._running.stdout is not None
        self._running.stdout.close()
        return code

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def disk_bytes(self) -> int:
        found = (os.path.getsize(path) for path in self._folder.glob("data/*/*.log"))
        return sum(found)
