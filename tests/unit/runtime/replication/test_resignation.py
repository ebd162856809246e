"""Leaders on a failed disk: when they resign. What they write is tested with whole brokers, in test_failed_folder."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

from tailrace.coordination.cluster import ClusterMetadata
from tailrace.runtime.replication.replicas import Replicas
from tailrace.runtime.replication.resignation import LeaderResignation
from tailrace.storage.log_dir import LogDir

DEADLINE_S = 60.0
NEVER_MS = 10**9


class Folder:
    """A log folder that a test takes offline."""

    def __init__(self) -> None:
        self.is_offline = False
        self._tell: Callable[[], object] | None = None

    def when_offline(self, tell: Callable[[], object]) -> None:
        self._tell = tell

    def fail(self) -> None:
        self.is_offline = True
        if self._tell is not None:
            self._tell()


class Bench(LeaderResignation):
    """A resignation that notes what it does."""

    def __init__(self, folder: Folder, retry_interval_ms: int) -> None:
        super().__init__(
            cast("ClusterMetadata", None), cast("Replicas", self), [cast("LogDir", folder)], retry_interval_ms
        )
        self.steps: asyncio.Queue[str] = asyncio.Queue()

    def assume_all_roles(self) -> None:
        self.steps.put_nowait("assume roles")

    async def resign(self) -> None:
        self.steps.put_nowait("resign")

    async def next_step(self) -> str:
        async with asyncio.timeout(DEADLINE_S):
            return await self.steps.get()


@asynccontextmanager
async def running(folder: Folder, retry_interval_ms: int) -> AsyncIterator[Bench]:
    bench = Bench(folder, retry_interval_ms)
    bench.watch()
    task = asyncio.create_task(bench.run())
    try:
        yield bench
    finally:
        task.cancel()


async def test_a_leader_resigns_as_soon_as_a_folder_fails() -> None:
    folder = Folder()
    async with running(folder, NEVER_MS) as bench:
        await asyncio.to_thread(folder.fail)
        assert [await bench.next_step() for _ in range(2)] == ["assume roles", "resign"]


async def test_a_leader_resigns_from_a_folder_that_failed_before_it_was_watched() -> None:
    """A folder that failed while the broker started was never noticed, and its leaders did not resign."""
    folder = Folder()
    folder.fail()
    async with running(folder, 1) as bench:
        assert [await bench.next_step() for _ in range(2)] == ["resign", "resign"]
