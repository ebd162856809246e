"""Sealed segments forget their indexes and close their files, and nobody notices."""

import errno

import pytest

from runnel.storage.error import StorageError
from runnel.storage.index_cache import IndexCache
from runnel.storage.log_config import LogConfig

KIB_64 = 64 * 1024
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


class Holder:
    def __init__(self) -> None:
        self.forgot = 0

    def forget(self) -> None:
        self.forgot += 1


@pytest.fixture
def holders() -> list[Holder]:
    return [Holder() for _ in range(5)]


def test_the_oldest_forget_when_there_is_no_room(holders) -> None:
    cache = IndexCache(3 * KIB_64)
    for holder in holders:
        cache.add(holder, KIB_64)
    assert [holder.forgot for holder in holders] == [1, 1, 0, 0, 0]
    assert (len(cache), cache.size_bytes) == (3, 3 * KIB_64)


def test_small_holders_count_for_their_file(holders) -> None:
    cache = IndexCache(3 * KIB_64)
    for holder in holders:
        cache.add(holder, 1)
    assert [holder.forgot for holder in holders] == [1, 1, 0, 0, 0]


def test_a_holder_that_grows_is_counted_once(holders) -> None:
    cache = IndexCache(10 * KIB_64)
    cache.add(holders[0], KIB_64)
    cache.add(holders[0], 2 * KIB_64)
    assert cache.size_bytes == 2 * KIB_64
    cache.discard(holders[0])
    cache.discard(holders[0])
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_the_newest_stays_even_if_it_is_too_large(holders) -> None:
    cache = IndexCache(KIB_64)
    cache.add(holders[0], KIB_64)
    cache.add(holders[1], 5 * KIB_64)
    assert [holder.forgot for holder in holders[:2]] == [1, 0]
    assert len(cache) == 1


def limited(bench, config: LogConfig = SMALL):
    """An open log whose folder has room for the indexes of one segment."""
    log = bench.open(config)
    bench.folder.index_cache._size_bytes_max = KIB_64
    return log


def test_what_was_forgotten_is_read_again(bench) -> None:
    log = limited(bench)
    for number in range(60):
        bench.append(log, b"%d" % number, timestamps=(1000 + number,))
        assert len(bench.folder.index_cache) <= 1
    assert len(log.segments) > 5
    assert bench.values(log) == [(number, b"%d" % number) for number in range(60)]
    for number in range(60):
        assert log.offset_for_timestamp(1000 + number) == (1000 + number, number, 0)
    assert sum(segment._file is not None for segment in log.segments) <= 2


def test_the_active_segment_never_forgets(bench) -> None:
    log = limited(bench)
    for number in range(58):
        bench.append(log, b"%d" % number)
    log.close()
    log = bench.open(SMALL, recovery_point=58, is_clean=True)
    bench.folder.index_cache._size_bytes_max = KIB_64
    active = log.segments[-1]
    bench.append(log, b"58")
    assert active is log.segments[-1]
    indexes = active.offset_index, active.time_index
    assert len(bench.values(log)) == 59
    assert (active._offset_index, active._time_index) == indexes
    log.truncate_to(20)
    active = log.segments[-1]
    indexes = active.offset_index, active.time_index
    assert len(bench.values(log)) == 20
    assert (active._offset_index, active._time_index) == indexes


def test_a_segment_that_could_not_be_sealed_stays_active_and_forgets_nothing(bench) -> None:
    log = limited(bench)
    for number in range(20):
        bench.append(log, b"%d" % number)
    bench.fs.hook = lambda number, operation, path: (
        OSError(errno.ENOSPC, "full") if operation == "create" and path.endswith(".log") else None
    )
    active = log.segments[-1]
    with pytest.raises(StorageError):
        log.roll()
    bench.fs.hook = None
    assert active is log.segments[-1]
    assert not active.is_sealed
    indexes = active.offset_index, active.time_index
    assert len(bench.values(log)) == 20
    assert (active._offset_index, active._time_index) == indexes
    log.roll()
    assert active.is_sealed


def test_deleted_segments_take_no_memory(bench) -> None:
    log = bench.open(SMALL)
    for number in range(60):
        bench.append(log, b"%d" % number)
    assert len(bench.folder.index_cache) == len(log.segments) - 1
    log.advance_log_start(60)
    log.apply_retention(0)
    assert len(bench.folder.index_cache) == len(log.segments) - 1
    log.truncate_to(60)
    log.truncate_fully(5)
    assert len(bench.folder.index_cache) == 0
    log.close()
    assert len(bench.folder.index_cache) == 0
