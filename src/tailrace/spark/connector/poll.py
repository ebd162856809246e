"""Threads of the driver that look for the newest row of a system which Spark reads only as a batch.

The reader of the stream lives in a Python process of its own, without a Spark session. So the driver looks, and
writes what it finds to a file in the checkpoint of the flow.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

log = logging.getLogger("tailrace.spark.pipeline")

_pollers: dict[str, "Poller"] = {}


@dataclass
class Poller:
    """Writes what `find` returns to a file, again and again."""

    name: str
    path: Path
    find: Callable[[], str]
    poll_s: float
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self, found: str) -> None:
        """Write what was found first, and look for more."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._write(found)
        self._thread = threading.Thread(target=self._run, name=f"poll-{self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop looking. A look that has begun ends by itself."""
        self._stopped.set()

    def _run(self) -> None:
        last_error = ""
        while not self._stopped.wait(self.poll_s):
            try:
                found = self.find()
                last_error = ""
            except Exception as error:  # of any driver: the next look may succeed
                if str(error) != last_error and not self._stopped.is_set():
                    last_error = str(error)
                    log.warning("new rows cannot be looked for: %s", last_error)
                continue
            if not self._stopped.is_set():
                self._write(found)

    def _write(self, found: str) -> None:
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text(found)
        new.replace(self.path)


def start_poller(poller: Poller, found: str) -> None:
    """Start a poller in place of the one of the same name."""
    stop_poller(poller.name)
    _pollers[poller.name] = poller
    poller.start(found)


def stop_poller(name: str) -> None:
    """Stop the poller of this name, if there is one."""
    if (running := _pollers.pop(name, None)) is not None:
        running.stop()
