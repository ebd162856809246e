"""Processes that outlive the command that starts them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

_LOOK_EVERY_S = 0.05
_FAREWELL_LINES = 5
_START_TIME_FIELD = 19  # index in /proc/PID/stat, counted after the name


@dataclass(frozen=True, slots=True)
class Daemon:
    """A process and its start time; the id alone may belong to another process later."""

    pid: int
    began: str

    @property
    def is_running(self) -> bool:
        return self.began == _began(self.pid)

    def stop(self) -> None:
        """Send SIGTERM."""
        if self.is_running:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        if self.is_running:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the process to end; returns whether it has."""
        deadline_s = time.monotonic() + timeout_s
        while self.is_running:
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True


class Launch:
    """A `tailrace` command that is starting, with its output in files beside its data."""

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._log = log
        self._output = log.with_suffix(".out")
        arguments = [sys.executable, "-m", "tailrace.cli.main", *arguments]
        with log.open("ab") as log_file, self._output.open("wb") as output:
            files = {0: os.open(os.devnull, os.O_RDONLY), 1: output.fileno(), 2: log_file.fileno()}
            actions = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in files.items()]
            # In its own session, so that Ctrl-C and a closed terminal do not stop it. Not with `subprocess`, which
            # warns about processes that were not waited for.
            pid = os.posix_spawn(sys.executable, arguments, environment, file_actions=actions, setsid=True)
            os.close(files[0])
        self.daemon = Daemon(pid, _began(pid) or "")

    def ready_line(self, timeout_s: float) -> str:
        """Return the line that reports readiness; raises with the end of the log if the process ends or is too slow."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            has_ended = not self.daemon.is_running
            for line in self._output.read_text().splitlines(keepends=True):
                if " ready on " in line and line.endswith("\n"):
                    return line.strip()
            if has_ended:
                raise click.ClickException(f"{self._log.stem} did not start: {self._last_words()}")
            time.sleep(_LOOK_EVERY_S)
        self.daemon.stop()
        raise click.ClickException(f"{self._log.stem} was not ready after {timeout_s:g} s; see {self._log}")

    def _last_words(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-_FAREWELL_LINES:])


def _began(pid: int) -> str | None:
    """Return the start time of a process in the system's own format; None if it is not running."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[_START_TIME_FIELD]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    # macOS has no /proc.
    asked = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or None
