"""Every codec within its bound: round trips, both snappy framings, what is cut, and what follows the end."""

import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import lz4.frame
import pytest
import zstandard
from aiokafka.codec import snappy_encode
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.records.compression import Compression, compress, decompress, is_readable_by_java
from tailrace.records.error import CorruptBatch, DecompressionLimit
from tailrace.records.record import read_records

TEXT = b"".join(b"record %d of a few that repeat themselves; " % number for number in range(2_000))
XERIAL_HEADER = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2


def zstd_of_unknown_size(data: bytes, **options: Any) -> bytes:
    compressor = zstandard.ZstdCompressor(**options).compressobj()
    return compressor.compress(data) + compressor.flush()


def lz4_of(**options: object) -> bytes:
    plain = {"block_linked": False, "store_size": False, "block_size": lz4.frame.BLOCKSIZE_MAX64KB}
    return bytes(lz4.frame.compress(TEXT, **{**plain, **options}))


STREAMS = {
    "gzip": (Compression.GZIP, compress(Compression.GZIP, TEXT)),
    "snappy of snappy-java": (Compression.SNAPPY, bytes(snappy_encode(TEXT))),
    "raw snappy": (Compression.SNAPPY, bytes(snappy_encode(TEXT, xerial_compatible=False))),
    "lz4": (Compression.LZ4, compress(Compression.LZ4, TEXT)),
    "lz4 with size": (Compression.LZ4, lz4_of(store_size=True)),
    "lz4 with checksums": (Compression.LZ4, lz4_of(content_checksum=True, block_checksum=True)),
    "lz4 of large blocks": (Compression.LZ4, lz4_of(block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
    "lz4 of linked blocks": (Compression.LZ4, lz4_of(block_linked=True)),
    "zstd": (Compression.ZSTD, compress(Compression.ZSTD, TEXT)),
    "zstd with checksum": (Compression.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)),
    "zstd of unknown size": (Compression.ZSTD, zstd_of_unknown_size(TEXT)),
    "zstd with a huge window": (Compression.ZSTD, zstd_of_unknown_size(TEXT, level=22)),
}


@pytest.fixture(params=sorted(STREAMS))
def stream(request: pytest.FixtureRequest) -> tuple[Compression, bytes]:
    return STREAMS[request.param]


def test_names() -> None:
    assert [codec.config_name for codec in Compression] == ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("size", [0, 1, 32 * 1024 - 1, 32 * 1024, 32 * 1024 + 1, 70_000])
def test_round_trip_at_block_edges(codec: Compression, size: int) -> None:
    data = TEXT[:size]
    assert bytes(decompress(codec, compress(codec, data), size)) == data
    assert bytes(decompress(codec, memoryview(compress(codec, memoryview(data))), size)) == data


@settings(max_examples=40)
@given(st.binary(max_size=2_000), st.sampled_from(list(Compression)))
def test_any_bytes_round_trip(data: bytes, codec: Compression) -> None:
    assert bytes(decompress(codec, compress(codec, data), len(data))) == data


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Compression.GZIP, (1, 9, -1)), (Compression.LZ4, (1, 9, 17)), (Compression.ZSTD, (-5, 1, 22))],
)
def test_every_level_that_kafka_takes(codec: Compression, levels: tuple[int, ...]) -> None:
    sizes = [len(compress(codec, TEXT, level)) for level in levels]
    assert sizes[0] >= sizes[1]
    for level in levels:
        assert bytes(decompress(codec, compress(codec, TEXT, level), len(TEXT))) == TEXT


def test_streams_of_other_encoders(stream: tuple[Compression, bytes]) -> None:
    assert bytes(decompress(*stream, len(TEXT))) == TEXT


def test_limit_is_exact(stream: tuple[Compression, bytes]) -> None:
    assert len(decompress(*stream, len(TEXT))) == len(TEXT)
    for limit in (len(TEXT) - 1, 1_000, 0):
        with pytest.raises(DecompressionLimit):
            decompress(*stream, limit)


def test_limit_of_what_is_not_compressed() -> None:
    assert decompress(Compression.NONE, b"four", 4) == b"four"
    with pytest.raises(DecompressionLimit):
        decompress(Compression.NONE, b"four", 3)


def test_every_prefix_is_refused(stream: tuple[Compression, bytes]) -> None:
    codec, data = stream
    for size in range(len(data) - 1, -1, -max(1, len(data) // 300)):
        try:
            output = bytes(decompress(codec, data[:size], len(TEXT)))
        except CorruptBatch:
            continue
        # Only snappy-java's framing has no end mark: cut between two blocks it is a shorter stream.
        assert data.startswith(XERIAL_HEADER)
        assert TEXT.startswith(output)
        assert len(output) < len(TEXT)


@pytest.mark.parametrize("codec_id", [1, 2, 3, 4])
@pytest.mark.parametrize("data", [b"", b"\x00", b"garbage", b"\x1f\x8b\x08", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd"])
def test_garbage_is_corrupt(codec_id: int, data: bytes) -> None:
    if (codec_id, data) == (2, b"\x00"):
        assert decompress(Compression.SNAPPY, data, 10) == b""  # a whole block of nothing
        return
    with pytest.raises(CorruptBatch):
        decompress(Compression(codec_id), data, 1_000)


# What follows the end. Kafka's Java streams decide, each in its own way.


def test_gzip_reads_further_members() -> None:
    data = compress(Compression.GZIP, b"one ") + compress(Compression.GZIP, b"two")
    assert decompress(Compression.GZIP, data, 7) == b"one two"
    with pytest.raises(DecompressionLimit):
        decompress(Compression.GZIP, data, 6)


def test_gzip_ignores_what_is_no_member() -> None:
    assert decompress(Compression.GZIP, compress(Compression.GZIP, b"one") + b"garbage", 100) == b"one"


def test_gzip_refuses_a_broken_further_member() -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.GZIP, compress(Compression.GZIP, b"one") + b"\x1f\x8b\x08garbage", 100)


def test_gzip_of_very_many_members_is_refused_early() -> None:
    with pytest.raises(CorruptBatch, match="members"):
        decompress(Compression.GZIP, compress(Compression.GZIP, b"") * 10_000, 100)


def test_gzip_trailer_is_checked() -> None:
    data = bytearray(compress(Compression.GZIP, b"one"))
    data[-5] ^= 1
    with pytest.raises(CorruptBatch):
        decompress(Compression.GZIP, data, 100)


def test_zlib_format_is_not_gzip() -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.GZIP, zlib.compress(b"one"), 100)


@pytest.mark.parametrize("after", [b"x", b"garbage of some length", compress(Compression.LZ4, b"two")])
def test_lz4_ignores_what_follows_the_frame(after: bytes) -> None:
    assert decompress(Compression.LZ4, compress(Compression.LZ4, b"one") + after, 100) == b"one"


def test_lz4_skippable_frame_is_no_frame() -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.LZ4, b"\x50\x2a\x4d\x18\x01\x00\x00\x00x" + compress(Compression.LZ4, b"one"), 100)


def test_java_reads_all_but_linked_lz4_blocks() -> None:
    unreadable = [name for name, stream in STREAMS.items() if not is_readable_by_java(*stream)]
    assert unreadable == ["lz4 of linked blocks"]


def test_zstd_reads_further_frames() -> None:
    data = compress(Compression.ZSTD, b"one ") + zstd_of_unknown_size(b"two")
    assert decompress(Compression.ZSTD, data, 7) == b"one two"
    with pytest.raises(DecompressionLimit):
        decompress(Compression.ZSTD, data, 6)


@pytest.mark.parametrize("after", [b"x", b"garbage of some length", b"\x28\xb5\x2f\xfd"])
def test_zstd_refuses_what_is_no_frame(after: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.ZSTD, compress(Compression.ZSTD, b"one") + after, 100)


@pytest.mark.parametrize("cut", range(1, 8))
def test_zstd_that_ends_within_its_checksum_or_last_block(cut: int) -> None:
    """The library's reader returns everything here and does not mind what is missing."""
    data = zstandard.ZstdCompressor(write_checksum=True).compress(b"one")
    with pytest.raises(CorruptBatch, match="incomplete"):
        decompress(Compression.ZSTD, data[:-cut], 100)


def test_zstd_of_very_many_frames_is_refused_early() -> None:
    with pytest.raises(CorruptBatch, match="frames"):
        decompress(Compression.ZSTD, compress(Compression.ZSTD, b"") * 10_000, 100)


def test_zstd_whose_claim_is_too_small_does_not_exceed_the_limit() -> None:
    data = bytearray(compress(Compression.ZSTD, b"\x00" * 200))
    assert data[4:6] == b"\x20\xc8"  # single segment, one byte of content size
    data[5] = 10
    with pytest.raises(CorruptBatch):
        decompress(Compression.ZSTD, data, 100)


def test_snappy_of_two_streams() -> None:
    data = bytes(snappy_encode(b"one ")) + bytes(snappy_encode(b"two"))
    assert decompress(Compression.SNAPPY, data, 7) == b"one two"
    with pytest.raises(DecompressionLimit):
        decompress(Compression.SNAPPY, data, 6)


@pytest.mark.parametrize("after", [b"x", b"xyz"])
def test_snappy_takes_fewer_than_four_bytes_for_the_end(after: bytes) -> None:
    assert decompress(Compression.SNAPPY, bytes(snappy_encode(b"one")) + after, 100) == b"one"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(XERIAL_HEADER + b"\x00\x00\x00\x09abc", id="a block beyond the end"),
        pytest.param(XERIAL_HEADER + b"\xff\xff\xff\xffabc", id="a negative length"),
        pytest.param(XERIAL_HEADER + b"\x00\x00\x00\x00", id="an empty block"),
        pytest.param(XERIAL_HEADER + b"\x82SNAwrong and long enough", id="a further header that is none"),
        pytest.param(XERIAL_HEADER + b"\x82SNAPPY\x00\x00", id="a further header that is cut"),
        pytest.param(b"\x82SNAPPY\x00" + b"\x00\x00\x00\x00" * 2, id="a version that is too old"),
        pytest.param(bytes(snappy_encode(b"one", xerial_compatible=False)) + b"x", id="bytes after a raw block"),
    ],
)
def test_snappy_that_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(Compression.SNAPPY, data, 1_000)


def test_snappy_claims_are_checked_before_memory_is_taken() -> None:
    """CVE-2023-34455: five bytes that claim four gigabytes."""
    claim = b"\xff\xff\xff\xff\x0f"
    with pytest.raises(DecompressionLimit):
        decompress(Compression.SNAPPY, claim + b"\x00abc", 1 << 20)
    with pytest.raises(DecompressionLimit):
        decompress(Compression.SNAPPY, XERIAL_HEADER + b"\x00\x00\x00\x09" + claim + b"\x00abc", 1 << 20)


def test_snappy_claims_add_up() -> None:
    block = bytes(cramjam.snappy.compress_raw(b"a" * 1_000))
    data = XERIAL_HEADER + (len(block).to_bytes(4, "big") + block) * 11
    with pytest.raises(DecompressionLimit):
        decompress(Compression.SNAPPY, data, 10_999)


BOMB_CHECK = """
import resource, sys
from tailrace.records.compression import Compression, compress, decompress
from tailrace.records.error import DecompressionLimit

codec = Compression(int(sys.argv[1]))
bomb = open(sys.argv[2], "rb").read()
decompress(codec, compress(codec, bytes(100_000)), 100_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, bomb, 1 << 20)
except DecompressionLimit:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def make_bomb(codec: Compression) -> bytes:
    """A stream of 128 MiB of zeros, made without ever holding them."""
    zeros = bytes(1 << 20)
    if codec is Compression.SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(zeros))
        return XERIAL_HEADER + (len(block).to_bytes(4, "big") + block) * 128
    makers: dict[Compression, Callable[[], Any]] = {
        Compression.GZIP: lambda: zlib.compressobj(1, wbits=31),
        Compression.LZ4: lambda: lz4.frame.LZ4FrameCompressor(block_linked=False),
        Compression.ZSTD: lambda: zstandard.ZstdCompressor(level=1).compressobj(),
    }
    compressor = makers[codec]()
    begin: bytes = compressor.begin() if codec is Compression.LZ4 else b""
    return begin + b"".join(compressor.compress(zeros) for _ in range(128)) + bytes(compressor.flush())


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is counted in kilobytes on Linux only")
def test_a_bomb_takes_little_memory(packing_codec: Compression, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(make_bomb(packing_codec))
    result = subprocess.run(
        [sys.executable, "-c", BOMB_CHECK, str(int(packing_codec)), str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(result.stdout) < 24 * 1024, "kilobytes for a limit of one megabyte"


def test_codecs_are_imported_on_first_use() -> None:
    program = (
        "import sys, tailrace.records.validation, tailrace.records.record, tailrace.records.builder;"
        "print([name for name in ('lz4', 'zstandard', 'cramjam') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"


def test_records_of_a_bomb_are_refused(packing_codec: Compression) -> None:
    from tailrace.records.builder import BatchBuilder

    builder = BatchBuilder(packing_codec)
    builder.append(0, None, bytes(1 << 20))
    with pytest.raises(DecompressionLimit):
        list(read_records(builder.build(), limit_bytes=1 << 20))
