"""Leader epochs: KIP-101's file and KIP-279's answers."""

import pytest

from tailrace.storage.epoch_cache import EpochCache
from tailrace.storage.memory_fs import MemoryFileSystem

FILE = "/p/leader-epoch-checkpoint"


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directory("/p")
    return fs


@pytest.fixture
def cache(fs: MemoryFileSystem) -> EpochCache:
    cache = EpochCache.load(fs, "/p")
    for epoch, offset in ((2, 0), (4, 10), (7, 30)):
        cache.assign(epoch, offset)
    return cache


def test_the_file_is_kafka_s(fs: MemoryFileSystem, cache: EpochCache) -> None:
    assert fs.read_file(FILE) == b"0\n3\n2 0\n4 10\n7 30\n"
    assert EpochCache.load(fs, "/p").starts == cache.starts
    assert EpochCache.load(fs, "/p").latest == 7


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (7, (7, 100)),  # the current one ends where the log does
        (4, (4, 30)),
        (2, (2, 10)),
        (3, (2, 10)),  # never led here: the one before it
        (6, (4, 30)),
        (0, (0, 0)),  # older than all: its records are gone
        (8, (-1, -1)),  # newer than all
        (-1, (-1, -1)),
    ],
)
def test_where_an_epoch_ends(cache: EpochCache, epoch: int, answer: tuple[int, int]) -> None:
    assert cache.end_offset_for(epoch, log_end_offset=100) == answer


def test_an_empty_cache_knows_nothing(fs: MemoryFileSystem) -> None:
    assert EpochCache(fs, "/p").end_offset_for(0, 5) == (-1, -1)
    assert EpochCache(fs, "/p").end_offset_for(-2, 5) == (-1, -1), "a client may ask for any number"
    assert EpochCache(fs, "/p").latest == -1
    assert EpochCache(fs, "/p").epoch_for(0) == -1


@pytest.mark.parametrize(("offset", "epoch"), [(0, 2), (9, 2), (10, 4), (29, 4), (30, 7), (1000, 7)])
def test_who_wrote_an_offset(cache: EpochCache, offset: int, epoch: int) -> None:
    assert cache.epoch_for(offset) == epoch


def test_assigning_the_current_epoch_again_writes_nothing(fs: MemoryFileSystem, cache: EpochCache) -> None:
    before = fs.call_count
    cache.assign(7, 50)
    assert fs.call_count == before


def test_a_contradicting_assignment_removes_what_it_contradicts(cache: EpochCache) -> None:
    cache.assign(8, 10)
    assert cache.starts == ((2, 0), (8, 10))
    cache.assign(3, 5)
    assert cache.starts == ((2, 0), (3, 5))


@pytest.mark.parametrize(
    ("end", "left"), [(31, ((2, 0), (4, 10), (7, 30))), (30, ((2, 0), (4, 10))), (1, ((2, 0),)), (0, ())]
)
def test_cutting_the_end(fs: MemoryFileSystem, cache: EpochCache, end: int, left: tuple[tuple[int, int], ...]) -> None:
    cache.truncate_end(end)
    assert cache.starts == left
    assert cache.latest == (left[-1][0] if left else -1)
    assert EpochCache.load(fs, "/p").starts == left


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, ((2, 0), (4, 10), (7, 30))),
        (5, ((2, 5), (4, 10), (7, 30))),
        (10, ((4, 10), (7, 30))),
        (29, ((4, 29), (7, 30))),
        (500, ((7, 500),)),
    ],
)
def test_cutting_the_start(cache: EpochCache, start: int, left: tuple[tuple[int, int], ...]) -> None:
    cache.truncate_start(start)
    assert cache.starts == left


@pytest.mark.parametrize(
    "data", [b"0\n1\n5\n", b"0\n2\n5 0\n4 10\n", b"0\n2\n4 10\n5 10\n", b"garbage", b"0\n1\nx y\n"]
)
def test_a_broken_file_is_no_file(fs: MemoryFileSystem, data: bytes) -> None:
    fs.write_file(FILE, data)
    assert EpochCache.load(fs, "/p").starts == ()
