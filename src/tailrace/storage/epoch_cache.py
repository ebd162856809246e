"""The start offset of each leader epoch of a log (KIP-101), and the file `leader-epoch-checkpoint`."""

import os
from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from tailrace.base.sentinel import NO_EPOCH, NO_OFFSET
from tailrace.storage.checkpoint import CorruptCheckpoint, decode_lines, encode_lines
from tailrace.storage.fs import FileSystem, write_atomically

EPOCH_FILE_NAME = "leader-epoch-checkpoint"


class EpochStart(NamedTuple):
    """A leader epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class EpochCache:
    """The start offsets of the leader epochs in one log. Both epochs and offsets rise strictly."""

    __slots__ = ("_directory", "_fs", "_starts", "latest")

    def __init__(self, fs: FileSystem, directory: str, starts: list[EpochStart] | None = None) -> None:
        self._fs = fs
        self._directory = directory
        self._starts = starts or []
        self.latest = self._starts[-1].epoch if self._starts else NO_EPOCH

    @classmethod
    def load(cls, fs: FileSystem, directory: str) -> "EpochCache":
        """Read the file. If it is missing or corrupt, return an empty cache, which recovery fills from the batches."""
        data = fs.read_file(os.path.join(directory, EPOCH_FILE_NAME))
        starts: list[EpochStart] = []
        try:
            for epoch, start_offset in decode_lines(data or b"", columns=2):
                starts.append(EpochStart(int(epoch), int(start_offset)))
        except (CorruptCheckpoint, ValueError):
            return cls(fs, directory)
        return cls(fs, directory, starts if _is_rising(starts) else None)

    @property
    def starts(self) -> tuple[EpochStart, ...]:
        return tuple(self._starts)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` starts at `start_offset`, and write the file before any record of the epoch is written.

        Entries that contradict the new one belong to truncated records and are removed.
        """
        if self._starts and self._starts[-1].epoch == epoch and self._starts[-1].start_offset <= start_offset:
            return
        starts = [start for start in self._starts if start.epoch < epoch and start.start_offset < start_offset]
        self._replace([*starts, EpochStart(epoch, start_offset)])

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch not above `epoch` and the offset after its last record (KIP-279).

        Return (-1, -1) if `epoch` is undefined or newer than every known epoch.
        """
        if not self._starts or epoch == NO_EPOCH or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        after = bisect_right(self._starts, epoch, key=_epoch)
        end_offset = self._starts[after].start_offset
        # The records of an epoch older than every known one are gone; the log starts where the first known one does.
        return (self._starts[after - 1].epoch if after else epoch), end_offset

    def epoch_for(self, offset: int) -> int:
        """Return the epoch that wrote `offset`, or -1 if it is unknown."""
        after = bisect_right(self._starts, offset, key=_start_offset)
        return self._starts[after - 1].epoch if after else NO_EPOCH

    def truncate_end(self, end_offset: int) -> None:
        """Remove the epochs that start at `end_offset` or later."""
        if self._starts and self._starts[-1].start_offset >= end_offset:
            self._replace([start for start in self._starts if start.start_offset < end_offset])

    def forget_after(self, epoch: int) -> None:
        """Remove the epochs later than one."""
        if self.latest > epoch:
            self._replace([start for start in self._starts if start.epoch <= epoch])

    def truncate_start(self, start_offset: int) -> None:
        """Remove the epochs that end before `start_offset`; the epoch that contains it then starts there.

        The file keeps them until it is next written; opening the log removes them again.
        """
        after = bisect_right(self._starts, start_offset, key=_start_offset)
        if after > 1 or (after == 1 and self._starts[0].start_offset < start_offset):
            first = EpochStart(self._starts[after - 1].epoch, start_offset)
            self._starts = [first, *self._starts[after:]]

    def prepend(self, starts: list[EpochStart]) -> None:
        """Add epochs, or an earlier start of the first one, before all known epochs."""
        if starts and not self._starts:
            self._replace(starts)
        elif starts:
            later = self._starts[1:] if starts[-1].epoch == self._starts[0].epoch else self._starts
            self._starts = [*starts, *later]

    def clear(self) -> None:
        if self._starts:
            self._replace([])

    def _replace(self, starts: list[EpochStart]) -> None:
        # Write the file first: if that fails, the cache is unchanged.
        lines = [f"{start.epoch} {start.start_offset}" for start in starts]
        write_atomically(self._fs, os.path.join(self._directory, EPOCH_FILE_NAME), encode_lines(lines))
        self._starts = starts
        self.latest = starts[-1].epoch if starts else NO_EPOCH


def _is_rising(starts: list[EpochStart]) -> bool:
    return all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairwise(starts))


def _epoch(start: EpochStart) -> int:
    return start.epoch


def _start_offset(start: EpochStart) -> int:
    return start.start_offset
