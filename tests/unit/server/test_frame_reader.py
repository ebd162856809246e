"""Frames cut out of a stream, whatever the pieces it arrives in."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.base.limits import FRAME_FIRST_BYTES_MIN, FRAME_GROWTH_FACTOR
from tailrace.server.frame_reader import FrameReader

SCRATCH_BYTES = 4096
LIMIT_BYTES = 20_000

sizes_of_frames = st.lists(
    st.one_of(st.integers(1, 40), st.integers(1, 3 * SCRATCH_BYTES), st.sampled_from([SCRATCH_BYTES, LIMIT_BYTES])),
    max_size=8,
)
cuts = st.lists(st.integers(1, 2 * SCRATCH_BYTES), min_size=1, max_size=50)


def reader() -> FrameReader:
    return FrameReader(LIMIT_BYTES, memoryview(bytearray(SCRATCH_BYTES)))


def feed(target: FrameReader, data: bytes, size_max: int = SCRATCH_BYTES) -> list[bytes]:
    """Hand over bytes as a transport does: into the buffer, as many as fit."""
    frames: list[bytes] = []
    while data and target.problem is None:
        if target.growth_bytes:
            target.grow()
        buffer = target.buffer(size_max)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        frames += map(bytes, target.received(count))
        data = data[count:]
    return frames


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def different_frames(sizes: list[int]) -> list[bytes]:
    return [bytes([number + 1]) * size for number, size in enumerate(sizes)]


@settings(deadline=None)
@given(sizes_of_frames, cuts, st.integers(1, SCRATCH_BYTES))
def test_frames_are_the_same_wherever_the_stream_is_cut(
    frame_sizes: list[int], sizes: list[int], size_max: int
) -> None:
    frames = different_frames(frame_sizes)
    stream = b"".join(map(framed, frames))
    target = reader()
    found: list[bytes] = []
    position = turn = received = 0
    while position < len(stream):
        piece = stream[position : position + sizes[turn % len(sizes)]]
        found += feed(target, piece, size_max)
        position += len(piece)
        received += len(piece)
        turn += 1
        assert target.partial_bytes <= FRAME_GROWTH_FACTOR * max(received, FRAME_FIRST_BYTES_MIN)
    assert found == frames
    assert target.problem is None
    assert not target.in_frame
    assert target.partial_bytes == 0


@given(sizes_of_frames)
def test_a_stream_that_stops_early_gives_the_whole_frames_and_holds_the_rest(frame_sizes: list[int]) -> None:
    frames = different_frames(frame_sizes)
    stream = b"".join(map(framed, frames))
    for stop in (len(stream) - 1, len(stream) // 2):
        if stop <= 0:
            continue
        target = reader()
        found = feed(target, stream[:stop])
        assert found == frames[: len(found)]
        assert target.in_frame == (sum(len(frame) + 4 for frame in found) < stop)


def test_memory_follows_what_arrives_and_not_what_is_claimed() -> None:
    target = reader()
    feed(target, struct.pack(">i", LIMIT_BYTES) + b"x")
    first_bytes = FRAME_FIRST_BYTES_MIN * FRAME_GROWTH_FACTOR
    assert (target.partial_bytes, target.growth_bytes) == (1, first_bytes - 1), "it grows when the caller says so"
    target.grow()
    assert (target.partial_bytes, target.growth_bytes) == (first_bytes, 0)
    feed(target, b"x" * (first_bytes - 1))
    assert (target.partial_bytes, target.growth_bytes) == (first_bytes, first_bytes * (FRAME_GROWTH_FACTOR - 1))
    target.grow()
    assert (target.partial_bytes, target.growth_bytes) == (first_bytes * FRAME_GROWTH_FACTOR, 0)


def test_the_last_growth_stops_at_the_length() -> None:
    target = reader()
    assert feed(target, framed(b"x" * 5000)[:-1]) == []
    assert target.partial_bytes == 5000


def test_a_large_frame_arrives_in_the_memory_it_is_returned_in() -> None:
    target = reader()
    feed(target, struct.pack(">i", 9000) + b"a" * 4092)
    target.grow()
    buffer = target.buffer(1)
    assert len(buffer) == 9000 - 4092, "the caller's bound is for bytes that have no memory yet"
    buffer[:] = b"b" * len(buffer)
    (frame,) = target.received(len(buffer))
    assert frame == b"a" * 4092 + b"b" * (9000 - 4092)


def test_reading_little_at_once() -> None:
    target = reader()
    assert len(target.buffer(10)) == 10
    assert feed(target, framed(b"abc"), size_max=1) == [b"abc"]


BAD_LENGTHS = {
    "zero": 0,
    "minus one": -1,
    "the least": -(2**31),
    "one too many": LIMIT_BYTES + 1,
    "the greatest": 2**31 - 1,
}


@pytest.mark.parametrize("length", BAD_LENGTHS.values(), ids=BAD_LENGTHS)
@pytest.mark.parametrize("size_max", [1, SCRATCH_BYTES])
def test_a_bad_length_ends_the_stream_after_the_frames_before_it(length: int, size_max: int) -> None:
    target = reader()
    found = feed(target, framed(b"good") + framed(b"too") + struct.pack(">i", length) + b"rest", size_max)
    assert found == [b"good", b"too"]
    assert target.problem == f"a frame of {length} bytes; the limit is {LIMIT_BYTES}"
    assert target.partial_bytes == 0, "nothing was allocated for it"


@pytest.mark.parametrize(
    ("start", "protocol"),
    [
        (bytes.fromhex("16030100a5010000a10303"), "TLS"),
        (bytes.fromhex("1603030200010001fc0303"), "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"POST /topics HTTP/1.1\r\n", "HTTP"),
    ],
)
def test_another_protocol_is_called_by_its_name(start: bytes, protocol: str) -> None:
    """A TLS hello was taken for a frame of 369,295,617 bytes, which told nobody what is wrong."""
    target = reader()
    assert feed(target, start, 3) == []
    assert (target.problem or "").startswith(f"the client speaks {protocol} on a")


def test_the_largest_frame_is_allowed() -> None:
    frame = b"x" * LIMIT_BYTES
    assert feed(reader(), framed(frame)) == [frame]


def test_connections_share_the_scratch_buffer_without_mixing_their_frames() -> None:
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    one, other = FrameReader(LIMIT_BYTES, scratch), FrameReader(LIMIT_BYTES, scratch)
    assert feed(one, framed(b"aaaa")[:6]) == []
    assert feed(other, framed(b"bbbb")[:3]) == []
    assert feed(one, b"aa") == [b"aaaa"]
    assert feed(other, framed(b"bbbb")[3:]) == [b"bbbb"]
