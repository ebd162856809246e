"""A test that ends its process the first time; `GATE_SAMPLE` names the folder in which it remembers that."""

import os
import signal
from pathlib import Path


def test_crashes() -> None:
    mark = Path(os.environ["GATE_SAMPLE"]) / "crash"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
