"""The five compression codecs of batches, each with a size limit.

The caller passes the largest size that it accepts, because a few kilobytes in any of these codecs
may expand to gigabytes. Bytes after the end of a compressed stream are treated as Kafka's Java code
treats them: gzip reads further members and ignores anything else, lz4 ignores all, zstd reads
further frames and rejects anything else, and snappy ends with the last byte.

The libraries are imported on first use: a broker that gets no zstd does not load it.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, cast

from tailrace.base.limits import COMPRESSED_STREAMS_PER_BATCH_MAX
from tailrace.records.error import CorruptBatch, DecompressionLimit

if TYPE_CHECKING:
    from tailrace.records.batch import Buffer


class Compression(IntEnum):
    """The codecs, numbered by the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        """The name of the codec in `compression.type`."""
        return self.name.lower()


_GZIP_WINDOW_BITS = 31  # for zlib: 32 KiB window, gzip header and trailer
_GZIP_MAGIC = b"\x1f\x8b\x08"
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_FLAGS_POSITION = 4
_LZ4_INDEPENDENT_BLOCKS = 0x20
_LZ4_RESERVED_FLAGS = 0x03  # the newer format's dictionary id is among them
_LZ4_LEVEL_MAX = 12


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Compress the records of a batch like Kafka's producer; `level` None means the codec's default."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return _compress_gzip(data, level)
        case Compression.SNAPPY:
            from tailrace.records.snappy import compress_snappy

            return compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data, level)
        case Compression.ZSTD:
            from tailrace.records.zstd import compress_zstd

            return compress_zstd(data, level)


def decompress(codec: Compression, data: Buffer, limit_bytes: int) -> Buffer:
    """Decompress records of at most `limit_bytes`.

    Raise `DecompressionLimit` if there would be more, after producing at most the limit and a few blocks
    of the codec, and `CorruptBatch` if the stream is invalid or incomplete.
    """
    match codec:
        case Compression.NONE:
            if len(data) > limit_bytes:
                raise DecompressionLimit(f"{len(data)} bytes of records, but at most {limit_bytes} are allowed")
            return data
        case Compression.GZIP:
            return _decompress_gzip(data, limit_bytes)
        case Compression.SNAPPY:
            from tailrace.records.snappy import decompress_snappy

            return decompress_snappy(data, limit_bytes)
        case Compression.LZ4:
            return _decompress_lz4(data, limit_bytes)
        case Compression.ZSTD:
            from tailrace.records.zstd import decompress_zstd

            return decompress_zstd(data, limit_bytes)


def is_readable_by_java(codec: Compression, data: Buffer) -> bool:
    """Return whether Kafka's Java consumer can read the stream: it rejects lz4 frames with linked blocks."""
    if codec is not Compression.LZ4 or len(data) <= _LZ4_FLAGS_POSITION:
        return True
    flags = data[_LZ4_FLAGS_POSITION]
    return flags & _LZ4_INDEPENDENT_BLOCKS != 0 and flags & _LZ4_RESERVED_FLAGS == 0


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, wbits=_GZIP_WINDOW_BITS)
    return compressor.compress(data) + compressor.flush()


def _decompress_gzip(data: Buffer, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes
    for _ in range(COMPRESSED_STREAMS_PER_BATCH_MAX):
        decompressor = zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            # One byte more than the limit tells a batch that fits from one that is larger.
            parts.append(decompressor.decompress(data, room + 1))
        except zlib.error as error:
            raise CorruptBatch(f"gzip: {error}") from None
        room -= len(parts[-1])
        if room < 0:
            raise DecompressionLimit(f"gzip: more than {limit_bytes} bytes of records")
        if not decompressor.eof:
            raise CorruptBatch("gzip: the stream is incomplete")
        data = decompressor.unused_data
        if data[: len(_GZIP_MAGIC)] != _GZIP_MAGIC:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise CorruptBatch(f"gzip: more than {COMPRESSED_STREAMS_PER_BATCH_MAX} members")


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    import lz4.frame

    # Independent blocks without sizes, because Kafka's Java reader rejects or ignores anything else.
    return cast(
        bytes,
        lz4.frame.compress(
            data,
            compression_level=0 if level is None else min(level, _LZ4_LEVEL_MAX),
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        ),
    )


def _decompress_lz4(data: Buffer, limit_bytes: int) -> bytes:
    import lz4.frame

    if data[: len(_LZ4_MAGIC)] != _LZ4_MAGIC:
        raise CorruptBatch("lz4: not a frame")
    decompressor = lz4.frame.LZ4FrameDecompressor()
    try:
        output = cast(bytes, decompressor.decompress(data, max_length=limit_bytes + 1))
    except RuntimeError as error:
        raise CorruptBatch(f"lz4: {error}") from None
    if len(output) > limit_bytes:
        raise DecompressionLimit(f"lz4: more than {limit_bytes} bytes of records")
    if not decompressor.eof:
        raise CorruptBatch("lz4: the frame is incomplete")
    return output
