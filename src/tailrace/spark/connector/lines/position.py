"""Positions in a file that grows: where the next batch of whole lines ends."""

from dataclasses import dataclass
from pathlib import Path

from tailrace.base.limits import MIB
from tailrace.spark.error import DataLossError

BATCH_BYTES = 16 * MIB
_END = b"\n"


@dataclass(frozen=True, slots=True)
class GrowingFile:
    """A file to which lines are appended. Positions are in bytes, and stand behind the end of a line."""

    path: Path
    max_lines: int | None = None
    batch_bytes: int = BATCH_BYTES

    def size(self) -> int:
        """Return the length of the file; 0 if it is not there yet."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def find_end(self, start: int, until: int | None = None) -> int:
        """Return the end of the batch that begins at a position; that position if no line is complete.

        Raises `DataLossError` if the file has become shorter.
        """
        size = self.size()
        if size < start:
            raise DataLossError(
                f"{self.path} has {size} bytes, and {start} were read: it was cut or replaced. "
                "Reset the flow to read the file from its start"
            )
        limit = size if until is None else min(size, until)
        if limit <= start:
            return start
        with self.path.open("rb") as file:
            file.seek(start)
            found = file.read(min(self.batch_bytes, limit - start))
            while _END not in found and start + len(found) < limit:  # a line that is longer than a batch
                more = file.read(min(self.batch_bytes, limit - start - len(found)))
                if not more:
                    break
                found += more
        return start + self._end_in(found)

    def _end_in(self, found: bytes) -> int:
        if self.max_lines is None:
            return found.rfind(_END) + 1
        end = 0
        for _ in range(self.max_lines):
            next_end = found.find(_END, end) + 1
            if next_end == 0:
                break
            end = next_end
        return end

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes between two positions; raises `DataLossError` if the file has become shorter."""
        with self.path.open("rb") as file:
            file.seek(start)
            found = file.read(end - start)
        if len(found) < end - start:
            raise DataLossError(f"{self.path} has lost bytes {start + len(found)} to {end}: it was cut or replaced")
        return found
