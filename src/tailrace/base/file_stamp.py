"""Stamps of files, which tell whether a file has changed."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Stamp(NamedTuple):
    """What changes with the content of a file."""

    modified_ns: int
    inode: int
    size_bytes: int


def take_stamps(files: Iterable[Path]) -> dict[Path, Stamp | None]:
    """Return the stamp of each file; None for one that is not there."""
    return {file: _stamp(file) for file in files}


def _stamp(file: Path) -> Stamp | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return Stamp(found.st_mtime_ns, found.st_ino, found.st_size)
