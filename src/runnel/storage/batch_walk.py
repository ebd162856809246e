"""Going through a segment file batch by batch."""

from collections.abc import Iterator

from runnel.base.limits import SCAN_CHUNK_BYTES
from runnel.records.batch import HEADER_SIZE, BatchHeader, check_crc, read_header
from runnel.records.error import CorruptBatch, TruncatedBatch
from runnel.storage.fs import File


def walk_headers(file: File, position: int, end: int, chunk_bytes: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and the header of each batch in [position, end), reading `chunk_bytes` at a time.

    Raises `CorruptBatch` or `TruncatedBatch` where no whole batch stands. Bodies are not looked at.
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
            raise TruncatedBatch(f"{end - position} bytes of a batch of {size_bytes}")
        yield position, header
        position += size_bytes


def walk_batches(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield each batch in [position, end) with its bytes, after its checksum was found right.

    Raises `CorruptBatch` or `TruncatedBatch` at the first byte that belongs to no good batch.
    """
    chunk = memoryview(b"")
    chunk_position = position
    while position < end:
        start = position - chunk_position
        if start + HEADER_SIZE > len(chunk):
            chunk = memoryview(file.read_at(position, min(SCAN_CHUNK_BYTES, end - position)))
            chunk_position, start = position, 0
        header = read_header(chunk, start)
        size_bytes = header.size_bytes
        if size_bytes > end - position:
            raise TruncatedBatch(f"{end - position} bytes of a batch of {size_bytes}")
        if start + size_bytes > len(chunk):
            chunk = memoryview(file.read_at(position, min(max(SCAN_CHUNK_BYTES, size_bytes), end - position)))
            chunk_position, start = position, 0
        if not check_crc(chunk, start, header):
            raise CorruptBatch(f"wrong checksum at position {position} of {file.path}")
        yield position, header, chunk[start : start + size_bytes]
        position += size_bytes
