"""Memory for replies is used again, and never while somebody looks at it."""

from tailrace.base.limits import FRAME_POOL_BYTES_MAX
from tailrace.client.frame_pool import FramePool

MIB = 1024 * 1024


def owner(frame: bytearray | memoryview) -> int:
    assert isinstance(frame, memoryview)
    return id(frame.obj)


def test_free_memory_is_used_again() -> None:
    pool = FramePool()
    frame = pool.take(3 * MIB - 5)
    assert len(frame) == 3 * MIB - 5
    first = owner(frame)
    del frame
    frame = pool.take(2 * MIB)
    assert (owner(frame), len(frame)) == (first, 2 * MIB)


def test_memory_that_somebody_looks_at_is_left_alone() -> None:
    pool = FramePool()
    frame = pool.take(MIB)
    frame[:4] = b"mine"
    view = memoryview(frame)[2:4]
    first = owner(frame)
    del frame
    other = pool.take(MIB)
    assert owner(other) != first
    other[:4] = b"----"
    assert bytes(view) == b"ne"


def test_small_frames_have_memory_of_their_own() -> None:
    assert isinstance(FramePool().take(100), bytearray)


def test_the_pool_is_bounded() -> None:
    pool = FramePool()
    frames = [pool.take(8 * MIB) for _ in range(10)]
    assert len({owner(frame) for frame in frames}) == 10
    assert sum(map(len, pool._buffers)) <= FRAME_POOL_BYTES_MAX
    assert len(pool.take(2 * FRAME_POOL_BYTES_MAX)) == 2 * FRAME_POOL_BYTES_MAX
