"""A record of each time that a broker's retention moves a log start: with the broker's clock, and what it left."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from tailrace.sim.care.shape import COMPACTED, RETAINED
from tailrace.sim.process import PROCESS
from tailrace.sim.world import World
from tailrace.storage.log import Log


@contextmanager
def watching_retention(world: World) -> Iterator[None]:
    """Record what retention does to the logs of the topics whose care is simulated."""
    apply = Log.apply_retention

    def watch(log: Log, now_ms: int, up_to_offset: int | None = None) -> int:
        process, before = PROCESS.get(), log.log_start_offset
        count = apply(log, now_ms, up_to_offset)
        partition = log.directory.rpartition("/")[2]
        if process is not None and count and partition.startswith((COMPACTED, RETAINED)):
            world.count("care retention passes that delete")
            world.recorder.invoke(
                process.name,
                "expire",
                partition=partition,
                before=before,
                offset=log.log_start_offset,
                clock_ms=now_ms,
                left_bytes=log.size_bytes,
            ).ok()
        return count

    with patch.object(Log, "apply_retention", watch):
        yield
