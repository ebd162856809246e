"""Reading a segment file in which something is broken, around what is broken.

Theory of operation. The checksum of a batch covers everything but its base offset, length,
leader epoch and magic. A batch whose checksum is wrong but which is followed by a good one,
or by the end, has a right length: only its body is broken. In any other case the length
cannot be believed, and the next batch is searched byte by byte: the next place where a
header stands whose offset can come next and whose checksum is right.

A base offset is judged by its neighbours. One that is below what came before is wrong. One
that leaves a gap may be what compaction made, unless the next batch has an offset from the
gap. The leader epoch is judged by the epoch cache, which is not known here.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from runnel.base.limits import SCAN_CHUNK_BYTES
from runnel.records.batch import HEADER_SIZE, MAGIC, MAGIC_POSITION, BatchHeader, check_crc, read_header
from runnel.records.error import RecordError
from runnel.storage.fs import File
from runnel.storage.offset_index import RELATIVE_OFFSET_MAX


class Stretch(NamedTuple):
    """A batch, or bytes that are none.

    `problem` says what is wrong, and is empty for a good batch. A stretch without a header is
    where no batch can be told from the bytes.
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
    """Yield what stands in [position, end), good and bad, one after the other and without gaps.

    `expected_offset` is the lowest that may come first; `base_offset` is that of the segment.
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
        # All offsets of a segment share their first four bytes, or have one of two values there.
        pattern = b"(?:%s).{%d}%s" % (
            b"|".join(map(re.escape, sorted(high))),
            MAGIC_POSITION - 4,
            re.escape(bytes((MAGIC,))),
        )
        self._header_pattern = re.compile(pattern, re.DOTALL)
        self._chunk = memoryview(b"")
        self._chunk_position = 0

    def _bytes(self, position: int, size_bytes: int) -> memoryview:
        """At least `size_bytes` from `position` on, where the file has them."""
        start = position - self._chunk_position
        if start < 0 or start + size_bytes > len(self._chunk):
            size_bytes = min(max(SCAN_CHUNK_BYTES, size_bytes), self._end - position)
            self._chunk = memoryview(self._file.read_at(position, size_bytes))
            self._chunk_position, start = position, 0
        return self._chunk[start:]

    def _header(self, position: int, expected_offset: int) -> BatchHeader | str:
        """A header that may stand here, or why none can."""
        left = self._end - position
        try:
            header = read_header(self._bytes(position, HEADER_SIZE))
        except RecordError as error:
            return str(error)
        if header.size_bytes > left:
            return f"{left} bytes of a batch of {header.size_bytes}"
        if header.base_offset < expected_offset:
            return f"offset {header.base_offset} where {expected_offset} comes next"
        if header.last_offset_delta < 0 or header.last_offset - self._base_offset > RELATIVE_OFFSET_MAX:
            return f"impossible offsets {header.base_offset} to {header.last_offset}"
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
                reason = f"offset {header.base_offset} before {next_header.base_offset}"
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
        """Where the next good batch begins, at `position` or later, or the end."""
        while position + HEADER_SIZE <= self._end:
            chunk = bytes(self._file.read_at(position, min(SCAN_CHUNK_BYTES, self._end - position)))
            for match in _overlapping(self._header_pattern, chunk):
                if self._good_header(position + match, expected_offset) is not None:
                    return position + match
            if position + len(chunk) >= self._end:
                break
            # A header may begin at the end of this piece.
            position += len(chunk) - MAGIC_POSITION
        return self._end


def _overlapping(pattern: re.Pattern[bytes], data: bytes) -> Iterator[int]:
    match = pattern.search(data)
    while match is not None:
        yield match.start()
        match = pattern.search(data, match.start() + 1)
