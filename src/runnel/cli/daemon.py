"""Processes that go on when the command that started them is over."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

_LOOK_EVERY_S = 0.05
_FAREWELL_LINES = 5
_START_TIME_FIELD = 19  # of what follows the name in /proc/PID/stat, from 0


@dataclass(frozen=True, slots=True)
class Daemon:
    """A process, and when it began: its id alone may be another's by now."""

    pid: int
    began: str

    @property
    def is_running(self) -> bool:
        return self.began == _began(self.pid)

    def stop(self) -> None:
        """Ask it to stop."""
        if self.is_running:
            os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended before the time is over."""
        deadline_s = time.monotonic() + timeout_s
        while self.is_running:
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True


class Launch:
    """A `runnel` command on its way to being ready, with its output in files beside its data."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self._log = log
        self._output = log.with_suffix(".out")
        arguments = [sys.executable, "-m", "runnel.cli.main", *arguments]
        with log.open("ab") as log_file, self._output.open("wb") as output:
            files = {0: os.open(os.devnull, os.O_RDONLY), 1: output.fileno(), 2: log_file.fileno()}
            actions = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in files.items()]
            # In a session of its own: neither Ctrl-C nor the end of the terminal is meant for it. And not by
            # `subprocess`, which complains about processes that nobody waits for.
            pid = os.posix_spawn(sys.executable, arguments, os.environ, file_actions=actions, setsid=True)
            os.close(files[0])
        self.daemon = Daemon(pid, _began(pid) or "")

    def ready_line(self, timeout_s: float) -> str:
        """The line by which it says that it is ready; an error with its last words if it ends or takes too long."""
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
    """When a process began, in whatever words the system has for it; None if it is not running."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[_START_TIME_FIELD]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    # No such files on macOS.
    asked = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or None
