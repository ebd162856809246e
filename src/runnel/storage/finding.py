"""What a look at the files of a log found to be wrong, and where."""

from typing import NamedTuple


class Finding(NamedTuple):
    """Something that is not as it should be; position and offset where they are known."""

    path: str
    text: str
    position: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        position = "" if self.position is None else f"position {self.position}: "
        offset = "" if self.offset is None else f"offset {self.offset}: "
        return f"{self.path}: {position}{offset}{self.text}"
