"""Which files this process has open."""

import contextlib
import os
from pathlib import Path

import pytest


def open_files(folder: Path) -> list[str]:
    """Those in a folder; a broker of other tests may open and close some of its own meanwhile."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc")
    paths = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            paths.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in paths if path.startswith(str(folder))]
