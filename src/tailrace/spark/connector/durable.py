"""Small files of a checkpoint that are replaced as a whole."""

import os
from pathlib import Path


def write_durably(path: Path, text: str) -> None:
    """Replace a file, so that the new one is on the disk when this returns; after a crash it is one or the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
