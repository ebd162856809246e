"""A Connect service in a process of its own, with its Spark applications, and requests to it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from tests.faults.readiness import has_output
from tests.port import free_port

START_TIMEOUT_S = 120.0
STATE_TIMEOUT_S = 300.0
_APPLICATION = b"tailrace.connect.application"


class ConnectProcess:
    """Starts with the same address and folder again and again, as an operator would have it."""

    def __init__(self, folder: Path, bootstrap_servers: str, *options: str) -> None:
        address = f"127.0.0.1:{free_port()}"
        self.client = httpx.Client(base_url=f"http://{address}", timeout=120)
        self.folder = folder
        self._log = folder / "connect.log"
        arguments = ["connect", "start", "--bootstrap-server", bootstrap_servers, "--listen", address]
        self._command = [sys.executable, "-m", "tailrace.cli.main", *arguments, "--data", str(folder / "data")]
        self._command += options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the service."""
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        """The address of the REST API."""
        return str(self.client.base_url).rstrip("/")

    def start(self) -> None:
        """Start, and return when it takes requests."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._log.open("a") as log:
            # Its applications inherit the variable, by which they are told from those of others.
            environment = {**os.environ, "TAILRACE_CONNECT_DATA": str(self.folder / "data")}
            self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, env=environment)
        assert self._process.stdout is not None
        assert has_output(self._process.stdout, START_TIMEOUT_S), self._log.read_text()[-2000:]
        assert b"ready on" in self._process.stdout.readline(), self._log.read_text()[-2000:]

    def kill(self) -> None:
        """Kill the service; its applications end by themselves."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the service and its applications."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(120)
            assert process.stdout is not None
            process.stdout.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.client.close()

    # --- requests

    def create(self, name: str, **config: str) -> None:
        """Create a connector; its settings have `_` for each dot."""
        settings = {setting.replace("_", "."): value for setting, value in config.items()}
        answer = self.client.post("/connectors", json={"name": name, "config": settings})
        assert answer.status_code == 201, answer.text

    def states(self, name: str) -> list[str]:
        """Return the states of a connector and its tasks; empty while the service does not answer."""
        with contextlib.suppress(httpx.HTTPError):
            status: dict[str, Any] = self.client.get(f"/connectors/{name}/status").json()
            if "connector" in status:
                return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        return []

    def await_states(self, name: str, *states: str, timeout_s: float = STATE_TIMEOUT_S) -> None:
        """Wait until a connector and its tasks are in these states."""
        deadline = time.monotonic() + timeout_s
        while (found := self.states(name)) != list(states):
            told = f"connector {name} is {found}, not {list(states)}"
            assert time.monotonic() < deadline, f"{told}\n{self.client.get(f'/connectors/{name}/status').text[:3000]}"
            time.sleep(0.05)

    # --- applications

    def applications(self) -> dict[int, list[int]]:
        """Return the ids of the applications of this folder's connectors, each with those of its other processes."""
        return {
            pid: [other for other in _processes() if other != pid and _session(other) == pid]
            for pid in _processes()
            if _APPLICATION in _command_line(pid) and _session(pid) == pid and self._is_ours(pid)
        }

    def _is_ours(self, pid: int) -> bool:
        return _environment(pid).get("TAILRACE_CONNECT_DATA") == str(self.folder / "data")


def memory_mib(pid: int) -> float:
    """Return the memory of a process; pages that it shares with others count by its share of them."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def is_java(pid: int) -> bool:
    """Whether a process runs Java."""
    return b"java" in _command_line(pid).split(b"\0")[0]


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _environment(pid: int) -> dict[str, str]:
    with contextlib.suppress(OSError):
        found = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        return dict(pair.split("=", 1) for pair in found.split("\0") if "=" in pair)
    return {}


def _session(pid: int) -> int:
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return 0
