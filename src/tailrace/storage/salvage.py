"""A reader of damaged segment files that finds the valid batches around the damage.

Theory of operation. The checksum of a batch covers everything but its base offset, length,
leader epoch and magic. If the checksum is wrong but a valid batch or the end of the file follows,
the length is right and only the body is damaged. Otherwise the length cannot be trusted, and the
next batch is searched byte by byte: the next header with a possible offset and a right checksum.

A base offset is judged by its neighbours. An offset below the previous one is wrong. An offset
after a gap may come from compaction, unless the next batch has an offset inside the gap. The leader
epoch is checked by the epoch cache, which is not available here.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tailrace.base.limits import SCAN_CHUNK_BYTES
from tailrace.records.batch import HEADER_SIZE, MAGIC, MAGIC_POSITION, BatchHeader, check_crc, read_header
from tailrace.records.error import RecordError
from tailrace.storage.fs import File
from tailrace.storage.offset_index import RELATIVE_OFFSET_MAX


class Stretch(NamedTuple):
    """A batch, or bytes that are not a batch.

    `problem` says what is wrong; it is empty for a valid batch. A stretch without a header holds
    bytes in which no batch can be recognised.
    """

    position: int
    size_bytes: int
    expected_offset: int
    header: BatchHeader | None
    problem: str

    @property
    def is_good(self) -> bool:
        return not self.problem


def walk_stretches(file: File, position: int, end: int, expected_offset: int, base_offset: int) -> Iterator[Stretch]:
    """Yield the contents of [position, end), valid and damaged, in order and without gaps.

    `expected_offset` is the lowest possible first offset; `base_offset` is that of the segment.
    """
    salvage = _Salvage(file, end, base_offset)
    while position < end:
        stretch = salvage.read(position, expected_offset)
        yield stretch
        position += stretch.size_bytes
        if stretch.header is not None:
            expected_offset = stretch.header.next_offset


class _Salvage:
    def __init__(self, file: File, end: int, base_offset: int) -> None:
        self._file = file
        self._end = end
        self._base_offset = base_offset
        high = {(base_offset >> 32).to_bytes(4, "big"), ((base_offset + RELATIVE_OFFSET_MAX) >> 32).to_bytes(4, "big")}
        # The first four bytes of all offsets of a segment are the same, or have one of two values.
        pattern = b"(?:%s).{%d}%s" % (
            b"|".join(map(re.escape, sorted(high))),
            MAGIC_POSITION - 4,
            re.escape(bytes((MAGIC,))),
        )
        self._header_pattern = re.compile(pattern, re.DOTALL)
        self._chunk = memoryview(b"")
        self._chunk_position = 0

    def _bytes(self, position: int, size_bytes: int) -> memoryview:
        """Return at least `size_bytes` from `position` on, if the file has them."""
        start = position - self._chunk_position
        if start < 0 or start + size_bytes > len(self._chunk):
            size_bytes = min(max(SCAN_CHUNK_BYTES, size_bytes), self._end - position)
            self._chunk = memoryview(self._file.read_at(position, size_bytes))
            self._chunk_position, start = position, 0
        return self._chunk[start:]

    def _header(self, position: int, expected_offset: int) -> BatchHeader | str:
        """Return the header at `position` if it is plausible, otherwise the reason why not."""
        left = self._end - position
        try:
            header = read_header(self._bytes(position, HEADER_SIZE))
        except RecordError as error:
            return str(error)
        if header.size_bytes > left:
            return f"the file holds {left} of the {header.size_bytes} bytes of a batch"
        if header.base_offset < expected_offset:
            return f"offset {header.base_offset} instead of the expected {expected_offset}"
        if header.last_offset_delta < 0 or header.last_offset - self._base_offset > RELATIVE_OFFSET_MAX:
            return f"invalid offsets {header.base_offset} to {header.last_offset}"
        return header

    def _has_right_checksum(self, position: int, header: BatchHeader) -> bool:
        return check_crc(self._bytes(position, header.size_bytes), 0, header)

    def read(self, position: int, expected_offset: int) -> Stretch:
        header = self._header(position, expected_offset)
        if isinstance(header, str):
            return self._skip(position, expected_offset, header)
        following = position + header.size_bytes
        if not self._has_right_checksum(position, header):
            if following == self._end or self._good_header(following, header.next_offset) is not None:
                return Stretch(position, header.size_bytes, expected_offset, header, "wrong checksum")
            return self._skip(position, expected_offset, "wrong checksum")
        if header.base_offset > expected_offset and following < self._end:
            next_header = self._good_header(following, expected_offset)
            if next_header is not None and next_header.base_offset < header.next_offset:
                reason = f"offset {header.base_offset} is followed by {next_header.base_offset}"
                return Stretch(position, header.size_bytes, expected_offset, None, reason)
        return Stretch(position, header.size_bytes, expected_offset, header, "")

    def _good_header(self, position: int, expected_offset: int) -> BatchHeader | None:
        header = self._header(position, expected_offset)
        if isinstance(header, str) or not self._has_right_checksum(position, header):
            return None
        return header

    def _skip(self, position: int, expected_offset: int, problem: str) -> Stretch:
        return Stretch(position, self._next(position + 1, expected_offset) - position, expected_offset, None, problem)

    def _next(self, position: int, expected_offset: int) -> int:
        """Return the position of the next valid batch at `position` or later, or the end."""
        while position + HEADER_SIZE <= self._end:
            chunk = bytes(self._file.read_at(position, min(SCAN_CHUNK_BYTES, self._end - position)))
            for match in _overlapping(self._header_pattern, chunk):
                if self._good_header(position + match, expected_offset) is not None:
                    return position + match
            if position + len(chunk) >= self._end:
                break
            # A header may begin at the end of this chunk.
            position += len(chunk) - MAGIC_POSITION
        return self._end


def _overlapping(pattern: re.Pattern[bytes], data: bytes) -> Iterator[int]:
    match = pattern.search(data)
    while match is not None:
        yield match.start()
        match = pattern.search(data, match.start() + 1)
