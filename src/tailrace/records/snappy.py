"""The snappy codec, in both framings that clients write.

Java's producer (and kafka-python, aiokafka, sarama) write snappy-java's own framing: a header of 16
bytes, then chunks, each with a 4-byte length and a raw snappy block. librdkafka and others write one
raw block. The first bytes tell them apart, as in snappy-java.
"""

from struct import Struct
from typing import NamedTuple

from tailrace.records.batch import Buffer
from tailrace.records.error import CorruptBatch, DecompressionLimit

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_MAGIC_HEAD = int.from_bytes(_XERIAL_MAGIC[:4], "big", signed=True)
_XERIAL_HEADER = Struct(">8sii")
_XERIAL_VERSION = 1
_CHUNK_LENGTH = Struct(">i")
_CHUNK_SIZE_BYTES = 32 * 1024  # snappy-java's block size


class _Chunk(NamedTuple):
    """A raw snappy block in the input, and the decompressed size that it claims."""

    start: int
    end: int
    claimed_bytes: int


def compress_snappy(data: Buffer) -> bytes:
    """Compress in snappy-java's framing, which every client can read."""
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, _XERIAL_VERSION, _XERIAL_VERSION)]
    for start in range(0, len(view), _CHUNK_SIZE_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _CHUNK_SIZE_BYTES]))
        parts += (_CHUNK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def decompress_snappy(data: Buffer, limit_bytes: int) -> bytearray:
    """Decompress either framing, after adding up the sizes that the blocks claim.

    A block cannot become larger than it claims, so no memory is allocated beyond the limit
    (snappy-java once trusted the claim: CVE-2023-34455).
    """
    import cramjam

    view = memoryview(data)
    try:
        chunks = _xerial_chunks(view) if _is_xerial(view) else [_chunk(view, 0, len(view))]
        total_bytes = sum(chunk.claimed_bytes for chunk in chunks)
        if total_bytes > limit_bytes:
            raise DecompressionLimit(f"snappy: {total_bytes} bytes of records, but at most {limit_bytes} are allowed")
        output = bytearray(total_bytes)
        _decompress_chunks(view, chunks, memoryview(output))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}") from None
    return output


def _decompress_chunks(view: memoryview, chunks: list[_Chunk], output: memoryview) -> None:
    import cramjam

    position = 0
    for chunk in chunks:
        end = position + chunk.claimed_bytes
        written = cramjam.snappy.decompress_raw_into(view[chunk.start : chunk.end], output[position:end])
        if written != chunk.claimed_bytes:
            raise CorruptBatch(f"snappy: a block claims {chunk.claimed_bytes} bytes but has {written}")
        position = end


def _is_xerial(view: memoryview) -> bool:
    return len(view) >= _XERIAL_HEADER.size and view[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC


def _xerial_chunks(view: memoryview) -> list[_Chunk]:
    """Return the blocks of one or more concatenated streams.

    Like snappy-java, ignore fewer than four bytes at the end.
    """
    chunks: list[_Chunk] = []
    position = 0
    while len(view) - position >= _CHUNK_LENGTH.size:
        (length,) = _CHUNK_LENGTH.unpack_from(view, position)
        if length == _XERIAL_MAGIC_HEAD:
            position = _skip_xerial_header(view, position)
            continue
        start = position + _CHUNK_LENGTH.size
        position = start + length
        if length < 0 or position > len(view):
            raise CorruptBatch(f"snappy: a block has {length} bytes, but only {len(view) - start} are left")
        chunks.append(_chunk(view, start, position))
    return chunks


def _skip_xerial_header(view: memoryview, position: int) -> int:
    if len(view) - position < _XERIAL_HEADER.size:
        raise CorruptBatch("snappy: a stream header is incomplete")
    magic, _, oldest_reader = _XERIAL_HEADER.unpack_from(view, position)
    if magic != _XERIAL_MAGIC or oldest_reader < _XERIAL_VERSION:
        raise CorruptBatch("snappy: unknown stream header")
    return position + _XERIAL_HEADER.size


def _chunk(view: memoryview, start: int, end: int) -> _Chunk:
    import cramjam

    return _Chunk(start, end, cramjam.snappy.decompress_raw_len(view[start:end]))
