"""A problem found in the files of a log, with its place."""

from typing import NamedTuple


class Finding(NamedTuple):
    """A problem in a file, with position and offset if they are known."""

    path: str
    text: str
    position: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        position = "" if self.position is None else f"position {self.position}: "
        offset = "" if self.offset is None else f"offset {self.offset}: "
        return f"{self.path}: {position}{offset}{self.text}"
