"""Room on the disk that is kept for metadata.

A broker on a full disk has to write some more to start: who leads, and in which epoch. Else
what it holds could not even be read. So a file stands there that is given up for that.
"""

import os
from contextlib import suppress
from pathlib import Path

from runnel.base.limits import METADATA_RESERVE_BYTES

_STEP_BYTES_MIN = 4096


class Reserve:
    """A file without a content beside that of the metadata."""

    def __init__(self, store_path: Path) -> None:
        self._path = store_path.with_suffix(".reserve")

    def take(self) -> None:
        """Have the room again, or as much of it as there is."""
        step_bytes = METADATA_RESERVE_BYTES
        size_bytes = 0
        while step_bytes >= _STEP_BYTES_MIN:
            if size_bytes < METADATA_RESERVE_BYTES and self._has(size_bytes + step_bytes):
                size_bytes += step_bytes
            step_bytes //= 2

    def give_up(self) -> bool:
        """Let go of the room; whether there was any."""
        with suppress(OSError):
            self._path.unlink()
            return True
        return False

    def _has(self, size_bytes: int) -> bool:
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
        except OSError:
            return False
        try:
            os.posix_fallocate(file, 0, size_bytes)
        except (OSError, AttributeError):  # macOS has no such function, and no reserve
            return False
        finally:
            os.close(file)
        return True
