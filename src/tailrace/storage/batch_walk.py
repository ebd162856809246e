"""Iterators over the batches of a segment file."""

from collections.abc import Iterator
from struct import Struct

from tailrace.base.limits import LOOKUP_CHUNK_BYTES, SCAN_CHUNK_BYTES
from tailrace.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, check_crc, read_header
from tailrace.records.error import CorruptBatch, TruncatedBatch
from tailrace.storage.fs import File


def walk_headers(file: File, position: int, end: int, chunk_bytes: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and the header of each batch in [position, end), reading `chunk_bytes` at a time.

    Raise `CorruptBatch` or `TruncatedBatch` at the first position without a whole batch. Bodies are not read.
    """
    chunk = b""
    chunk_position = position
    while position < end:
        if position - chunk_position + HEADER_SIZE > len(chunk):
            chunk = file.read_at(position, min(max(chunk_bytes, HEADER_SIZE), end - position))
            chunk_position = position
        header = read_header(chunk, position - chunk_position)
        size_bytes = header.size_bytes
        if size_bytes > end - position:
            raise TruncatedBatch(f"the file holds {end - position} of the {size_bytes} bytes of a batch")
        yield position, header
        position += size_bytes


class OffsetGap(CorruptBatch):
    """The base offset of a batch does not follow the last offset before it: after compaction, or from damage."""


# Base offset, length, magic and last offset delta: the fields needed to skip a batch.
_PLACE = Struct(">qi4xb6xi")


def find_batch(
    file: File, position: int, end: int, offset: int, last_offset: int, indexed_offset: int | None = None
) -> tuple[int, BatchHeader] | None:
    """Return the position and header of the first batch in [position, end) that ends at `offset` or above.

    Every fetch calls this and usually skips a few batches, so it reads only the fields that it needs.
    `last_offset` is the offset before the first batch; `indexed_offset` is the last offset of that batch
    according to an index. Raise the errors of `walk_headers`, `CorruptBatch` if an offset is not above
    those before it, and `OffsetGap` if the base offset of the found batch does not follow.
    """
    unpack_from = _PLACE.unpack_from
    while position < end:
        chunk = file.read_at(position, min(LOOKUP_CHUNK_BYTES, end - position))
        start = 0
        header_start_max = len(chunk) - HEADER_SIZE
        while start <= header_start_max:
            base_offset, length, magic, last_offset_delta = unpack_from(chunk, start)
            if indexed_offset is not None:
                if base_offset + last_offset_delta != indexed_offset:
                    raise CorruptBatch(f"no batch at position {position} ends with offset {indexed_offset}")
                indexed_offset = None
                last_offset = base_offset - 1
            if base_offset <= last_offset:
                raise CorruptBatch(f"offset {base_offset} follows offset {last_offset}")
            expected_offset, last_offset = last_offset + 1, base_offset + last_offset_delta
            if magic != MAGIC or length < HEADER_SIZE - LOG_OVERHEAD or last_offset >= offset:
                header = read_header(chunk, start)
                if header.size_bytes > end - position - start:
                    left = end - position - start
                    raise TruncatedBatch(f"the file holds {left} of the {header.size_bytes} bytes of a batch")
                if base_offset != expected_offset:
                    raise OffsetGap(f"offset {base_offset} instead of the expected {expected_offset}")
                return position + start, header
            start += length + LOG_OVERHEAD
        if start == 0:
            raise TruncatedBatch(f"{len(chunk)} bytes are too few for a batch header")
        position += start
    if position > end:
        raise TruncatedBatch(f"a batch ends {position - end} bytes after the end of its file")
    return None


def walk_batches(
    file: File, position: int, end: int, chunk_bytes: int = SCAN_CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield each batch in [position, end) with its bytes, after verifying its checksum.

    Raise `CorruptBatch` or `TruncatedBatch` at the first byte that does not belong to a valid batch.
    """
    chunk = memoryview(b"")
    chunk_position = position
    while position < end:
        start = position - chunk_position
        if start + HEADER_SIZE > len(chunk):
            chunk = memoryview(file.read_at(position, min(chunk_bytes, end - position)))
            chunk_position, start = position, 0
        header = read_header(chunk, start)
        size_bytes = header.size_bytes
        if size_bytes > end - position:
            raise TruncatedBatch(f"the file holds {end - position} of the {size_bytes} bytes of a batch")
        if start + size_bytes > len(chunk):
            chunk = memoryview(file.read_at(position, min(max(chunk_bytes, size_bytes), end - position)))
            chunk_position, start = position, 0
        if not check_crc(chunk, start, header):
            raise CorruptBatch(f"wrong checksum at position {position} of {file.path}")
        yield position, header, chunk[start : start + size_bytes]
        position += size_bytes
