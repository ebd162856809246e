"""An anomaly that a checker found."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One anomaly: its name, the partition or group, a description, and the lines of the history that show it."""

    anomaly: str
    place: str
    text: str
    lines: tuple[int, ...] = ()

    def __str__(self) -> str:
        lines = f" (lines {', '.join(map(str, self.lines))})" if self.lines else ""
        return f"{self.anomaly} in {self.place}: {self.text}{lines}"
