"""A record of what brokers do to the logs whose care is simulated: retention that moves a log start, and compaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tailrace.runtime.log import compaction
from tailrace.sim.care.policy import policy_name
from tailrace.sim.care.shape import COMPACTED, RETAINED
from tailrace.sim.process import PROCESS
from tailrace.sim.world import World
from tailrace.storage.compaction_plan import plan_compaction
from tailrace.storage.log import Log


@contextmanager
def watching_care(world: World) -> Iterator[None]:
    """Record what retention and compaction do to the logs of the topics whose care is simulated."""
    apply = Log.apply_retention

    def watch(log: Log, now_ms: int, up_to_offset: int | None = None) -> int:
        process, before = PROCESS.get(), log.log_start_offset
        count = apply(log, now_ms, up_to_offset)
        if process is not None and count and _is_cared_for(log):
            world.count("care retention passes that delete")
            world.recorder.invoke(
                process.name,
                "expire",
                partition=_partition(log),
                before=before,
                offset=log.log_start_offset,
                clock_ms=now_ms,
                left_bytes=log.size_bytes,
                policy=policy_name(log.config),
            ).ok()
        return count

    def watch_plan(log: Log, *rest: Any) -> Any:
        process = PROCESS.get()
        if process is not None and _is_cared_for(log):
            world.count("care compactions")
            policy = policy_name(log.config)
            world.recorder.invoke(process.name, "compact", partition=_partition(log), policy=policy).ok()
        return plan_compaction(log, *rest)

    with patch.object(Log, "apply_retention", watch), patch.object(compaction, "plan_compaction", watch_plan):
        yield


def _partition(log: Log) -> str:
    return log.directory.rpartition("/")[2]


def _is_cared_for(log: Log) -> bool:
    return _partition(log).startswith((COMPACTED, RETAINED))
