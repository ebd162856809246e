"""Disk space reserved for metadata.

A broker on a full disk must write a little to start: the leaders and their epochs. Otherwise not even
its data could be read. So a reserve file is kept, which is removed in that case.
"""

import os
from contextlib import suppress
from pathlib import Path

from tailrace.base.limits import METADATA_RESERVE_BYTES

_STEP_BYTES_MIN = 4096


class Reserve:
    """A file without content, next to the metadata file."""

    def __init__(self, store_path: Path) -> None:
        self._path = store_path.with_suffix(".reserve")

    def take(self) -> None:
        """Allocate the reserve, or as much of it as the disk has."""
        step_bytes = METADATA_RESERVE_BYTES
        size_bytes = 0
        while step_bytes >= _STEP_BYTES_MIN:
            if size_bytes < METADATA_RESERVE_BYTES and self._has(size_bytes + step_bytes):
                size_bytes += step_bytes
            step_bytes //= 2

    def give_up(self) -> bool:
        """Remove the reserve. Return whether there was one."""
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
        except (OSError, AttributeError):  # macOS lacks this function, so it has no reserve
            return False
        finally:
            os.close(file)
        return True
