"""Which leader epoch wrote which offsets (KIP-101), and its file `leader-epoch-checkpoint`."""

import os
from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from runnel.storage.checkpoint import CorruptCheckpoint, decode_lines, encode_lines
from runnel.storage.fs import FileSystem, write_atomically

EPOCH_FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1
NO_OFFSET = -1


class EpochStart(NamedTuple):
    """A leader epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class EpochCache:
    """The start offsets of the leader epochs in one log; both rise strictly."""

    __slots__ = ("_directory", "_fs", "_starts", "latest")

    def __init__(self, fs: FileSystem, directory: str, starts: list[EpochStart] | None = None) -> None:
        self._fs = fs
        self._directory = directory
        self._starts = starts or []
        self.latest = self._starts[-1].epoch if self._starts else NO_EPOCH

    @classmethod
    def load(cls, fs: FileSystem, directory: str) -> "EpochCache":
        """Read the file; without one, or with a broken one, recovery fills the cache from the batches."""
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
        """Note that `epoch` begins at `start_offset`, and write that down before any record of it is.

        Entries that contradict the new one belong to records that were cut away, and go.
        """
        if self._starts and self._starts[-1].epoch == epoch and self._starts[-1].start_offset <= start_offset:
            return
        starts = [start for start in self._starts if start.epoch < epoch and start.start_offset < start_offset]
        self._replace([*starts, EpochStart(epoch, start_offset)])

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above `epoch` and the offset after its last record (KIP-279).

        (-1, -1) when `epoch` is unknown because it is newer than all there are, or undefined.
        """
        if not self._starts or epoch == NO_EPOCH or epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        after = bisect_right(self._starts, epoch, key=_epoch)
        end_offset = self._starts[after].start_offset
        # An epoch older than all that are kept: its records are gone, the log begins where the first ends.
        return (self._starts[after - 1].epoch if after else epoch), end_offset

    def epoch_for(self, offset: int) -> int:
        """The epoch that wrote `offset`, -1 if that is not known."""
        after = bisect_right(self._starts, offset, key=_start_offset)
        return self._starts[after - 1].epoch if after else NO_EPOCH

    def truncate_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at `end_offset` or later."""
        if self._starts and self._starts[-1].start_offset >= end_offset:
            self._replace([start for start in self._starts if start.start_offset < end_offset])

    def truncate_start(self, start_offset: int) -> None:
        """Forget the epochs that end before `start_offset`; the one it is in begins there.

        The file keeps them until it is next written: opening a log forgets them again.
        """
        after = bisect_right(self._starts, start_offset, key=_start_offset)
        if after > 1 or (after == 1 and self._starts[0].start_offset < start_offset):
            first = EpochStart(self._starts[after - 1].epoch, start_offset)
            self._starts = [first, *self._starts[after:]]

    def prepend(self, starts: list[EpochStart]) -> None:
        """Know of epochs, or of an earlier start of the first, that came before all that are known."""
        if starts and not self._starts:
            self._replace(starts)
        elif starts:
            later = self._starts[1:] if starts[-1].epoch == self._starts[0].epoch else self._starts
            self._starts = [*starts, *later]

    def clear(self) -> None:
        if self._starts:
            self._replace([])

    def _replace(self, starts: list[EpochStart]) -> None:
        # The file first: when it cannot be written, nothing has happened.
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
