"""Places at which a driver or a task of a flow stands still when it is asked to, so that a kill meets it there."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.faults.spark_kill_plan import Kill, Moment

HALT_FOLDER = "SPARK_KILL_HALT_FOLDER"
"""The environment variable with the folder of the requests."""
HALT_TIMEOUT_S = 300.0
_POLL_S = 0.01


class Halt:
    """Requests to stand still, as files: who kills and who stands still are different processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ask(self, kill: Kill) -> None:
        """Have the next process of the kill's flow that comes by stand still, and no other."""
        self._asked(kill).touch()

    def reached_by(self, kill: Kill) -> int | None:
        """The id of the process that stands still."""
        try:
            return int(self._asked(kill).with_suffix(".reached").read_text())
        except (FileNotFoundError, ValueError):  # the file is there a moment before what is in it
            return None

    def release(self, kill: Kill) -> None:
        self._asked(kill).unlink(missing_ok=True)

    def pass_by(self, moment: Moment, flow: str) -> None:
        """Stand still if that was asked of this flow, until it is over."""
        for asked in self._folder.glob(f"*.{moment}.{flow}.asked"):
            try:
                with asked.with_suffix(".reached").open("x") as reached:
                    reached.write(str(os.getpid()))
            except FileExistsError:
                continue  # another one stands there
            deadline_s = time.monotonic() + HALT_TIMEOUT_S
            while asked.exists() and time.monotonic() < deadline_s:
                time.sleep(_POLL_S)

    def _asked(self, kill: Kill) -> Path:
        return self._folder / f"{kill.number}.{kill.moment}.{kill.flow}.asked"


def halt_folder() -> Path:
    """Return the folder of the run that this process belongs to."""
    return Path(os.environ[HALT_FOLDER])


def pass_by(moment: Moment, flow: str) -> None:
    """Stand still if that was asked of this flow in the run that this process belongs to."""
    Halt(halt_folder()).pass_by(moment, flow)
