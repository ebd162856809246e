"""Followers write their log start offsets before they tell a leader, also after a disk was full for a while."""

import errno
import logging
import os
from typing import cast

import pytest
from tests.settled import settled
from tests.unit.runtime.replication.test_replica_fetcher import Seat, fetching
from tests.unit.sample import make_batch
from tests.unit.server.replication.cluster import until

from tailrace.storage.checkpoint import LOG_START_FILE_NAME
from tailrace.storage.memory_fs import MemoryFileSystem

BACKOFF_MS = 1_000


class FullDisk:
    """A disk of a follower that has no room for the checkpoint of log start offsets, and for this file only."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._fs = cast(MemoryFileSystem, seat.bench.partition.log.folder.fs)
        self.attempt_count = 0
        self._fs.hook = self._fail

    def _fail(self, _call: int, operation: str, path: str) -> OSError | None:
        if operation != "create" or LOG_START_FILE_NAME not in path:
            return None
        self.attempt_count += 1
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def mend(self) -> None:
        self._fs.hook = None

    async def delete(self, offset: int) -> None:
        """Append a record, and let the leader tell that the records below it are deleted."""
        await self._seat.asked()
        self._seat.leader.send(make_batch(b"a"), high_watermark=offset, end_offset=offset, log_start_offset=offset)
        await until(lambda: self._seat.bench.partition.log.log_start_offset == offset)

    @property
    def durable_offset(self) -> int:
        return self._seat.bench.partition.log.checkpointed_start_offset


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records if "log start" in record.getMessage()]


async def test_a_full_disk_is_logged_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    """Each fetch of a busy partition wrote to the full disk again and logged another warning."""
    caplog.set_level(logging.INFO, "tailrace.runtime")
    async with fetching() as seat:
        disk = FullDisk(seat)
        for offset in range(1, 5):
            await disk.delete(offset)
        await until(lambda: seat.leader.asked.qsize() == 1)
        assert disk.attempt_count == 1
        seat.bench.clock.time_ms += BACKOFF_MS
        await disk.delete(5)
        await until(lambda: seat.leader.asked.qsize() == 1)
        assert disk.attempt_count == 2
        ((level, text),) = lines(caplog)
        assert (level, "/data" in text, "No space left" in text) == (logging.WARNING, True, True)
        caplog.clear()
        disk.mend()
        seat.bench.clock.time_ms += BACKOFF_MS
        for offset in (6, 7):
            await disk.delete(offset)
        await until(lambda: seat.leader.asked.qsize() == 1)
        assert disk.durable_offset == 7
        assert lines(caplog) == [(logging.INFO, "log start offsets can be written to /data again")]


async def test_the_leader_of_a_quiet_partition_is_told_after_the_disk_works_again() -> None:
    """A follower wrote its log start again only with the next record or the next checkpoint, up to a minute later."""
    async with fetching() as seat:
        disk = FullDisk(seat)
        await disk.delete(1)
        await seat.asked()
        disk.mend()
        seat.leader.stay_quiet()
        await settled()
        assert disk.durable_offset == 0
        seat.bench.clock.time_ms += BACKOFF_MS
        seat.leader.stay_quiet()
        await until(lambda: disk.durable_offset == 1)
        await seat.asked()
        assert seat.leader.told_start_offset == 1
