"""The zstd codec, which checks the frames before it decompresses them.

Only the library's streaming reader can stop at a limit, but it accepts an incomplete frame as
complete. The block headers tell the difference without decompressing.
"""

from struct import Struct
from typing import TYPE_CHECKING

from tailrace.base.limits import COMPRESSED_STREAMS_PER_BATCH_MAX
from tailrace.records.batch import Buffer
from tailrace.records.error import CorruptBatch, DecompressionLimit

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionReader

_MAGIC = b"\x28\xb5\x2f\xfd"
_HEADER_SIZE_MAX = 18
_CHECKSUM_SIZE = 4
_BLOCK_HEADER_SIZE = 3
_BLOCK_LAST_FLAG = 0x01
_BLOCK_RUN_LENGTH = 1
_BLOCK_RESERVED = 3
_BLOCK_HEADER = Struct("<HB")
_READ_SIZE_MIN = 256 * 1024


def compress_zstd(data: Buffer, level: int | None) -> bytes:
    """Compress to one frame that states the size of its content."""
    import zstandard

    compressor = zstandard.ZstdCompressor() if level is None else zstandard.ZstdCompressor(level=level)
    return compressor.compress(data)


def decompress_zstd(data: Buffer, limit_bytes: int) -> bytes:
    """Decompress one or more frames, with no bytes between or after them."""
    import zstandard

    try:
        content_bytes = _measure_frames(memoryview(data))
        if content_bytes is not None and content_bytes > limit_bytes:
            raise DecompressionLimit(f"zstd: {content_bytes} bytes of records, but at most {limit_bytes} are allowed")
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            return _read_within(reader, limit_bytes, content_bytes)
    except zstandard.ZstdError as error:
        raise CorruptBatch(f"zstd: {error}") from None


def _read_within(reader: "ZstdDecompressionReader", limit_bytes: int, content_bytes: int | None) -> bytes:
    """Read to the end, in parts that double in size, or raise at the first byte beyond the limit."""
    size = _READ_SIZE_MIN if content_bytes is None else content_bytes + 1
    parts: list[bytes] = []
    total_bytes = 0
    while part := reader.read(min(size, limit_bytes - total_bytes + 1)):
        parts.append(part)
        total_bytes += len(part)
        if total_bytes > limit_bytes:
            raise DecompressionLimit(f"zstd: more than {limit_bytes} bytes of records")
        size *= 2
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _measure_frames(view: memoryview) -> int | None:
    """Check that the frames are complete and return the total size they claim, None if one does not state it."""
    import zstandard

    total_bytes: int | None = 0
    position = 0
    for _ in range(COMPRESSED_STREAMS_PER_BATCH_MAX):
        head = view[position : position + _HEADER_SIZE_MAX]
        if head[: len(_MAGIC)] != _MAGIC:
            raise CorruptBatch("zstd: not a frame")
        parameters = zstandard.get_frame_parameters(head)
        known = parameters.content_size != zstandard.CONTENTSIZE_UNKNOWN
        total_bytes = total_bytes + parameters.content_size if known and total_bytes is not None else None
        position = _skip_blocks(view, position + zstandard.frame_header_size(head))
        position += _CHECKSUM_SIZE if parameters.has_checksum else 0
        if position > len(view):
            raise CorruptBatch("zstd: the frame is incomplete")
        if position == len(view):
            return total_bytes
    raise CorruptBatch(f"zstd: more than {COMPRESSED_STREAMS_PER_BATCH_MAX} frames")


def _skip_blocks(view: memoryview, position: int) -> int:
    """Return the position after a frame's last block, possibly beyond the end."""
    while position + _BLOCK_HEADER_SIZE <= len(view):
        low, high = _BLOCK_HEADER.unpack_from(view, position)
        kind = low >> 1 & 0b11
        if kind == _BLOCK_RESERVED:
            raise CorruptBatch("zstd: unknown block type")
        # The size of a run-length block is the number of repetitions of its one byte.
        size = 1 if kind == _BLOCK_RUN_LENGTH else (high << 16 | low) >> 3
        position += _BLOCK_HEADER_SIZE + size
        if low & _BLOCK_LAST_FLAG:
            return position
    raise CorruptBatch("zstd: the frame is incomplete")
