"""The deadlines of all shards of a coordinator, behind one timer of the event loop."""

import asyncio
import logging
from typing import Any

from tailrace.base.clock import Clock
from tailrace.machines.decision import Timer
from tailrace.runtime.coordinator.deadline import Deadlines
from tailrace.runtime.coordinator.shard import CoordinatorShard

log = logging.getLogger("tailrace.runtime")

AnyShard = CoordinatorShard[Any, Any]


class ShardTimers:
    """The timers of all shards: each tells the shard's machine when it is due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadlines: Deadlines[tuple[AnyShard, tuple[str, ...]]] = Deadlines()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms: int | None = None

    def set(self, shard: AnyShard, timer: Timer) -> None:
        """Set or cancel a timer of a shard's machine."""
        key = shard, timer.key
        if timer.at_ms is None:
            self._deadlines.cancel(key)
            return
        # The wall clock may jump; what members wait for must not.
        wait_ms = timer.at_ms - self._clock.now_ms()
        self._deadlines.set(key, self._clock.monotonic_ms() + wait_ms)
        self._set_alarm()

    def stop(self) -> None:
        """Stop firing timers."""
        if self._alarm is not None:
            self._alarm.cancel()

    def fire_due(self) -> None:
        """Fire the timers that are due."""
        for shard, key in self._deadlines.take_due(self._clock.monotonic_ms()):
            if shard.is_loaded and not shard.is_gone:
                try:
                    shard.on_timer(key)
                except Exception:
                    # A bug costs this one timer, as it costs one request in a handler. If it breaks an invariant the
                    # shard has gone offline by itself, and nothing is raised here.
                    log.exception("the timer %s failed", key)

    def _set_alarm(self) -> None:
        next_ms = self._deadlines.next_ms()
        if next_ms is None or (self._alarm_ms is not None and self._alarm_ms <= next_ms):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = next_ms
        wait_ms = max(next_ms - self._clock.monotonic_ms(), 0)
        self._alarm = asyncio.get_running_loop().call_later(wait_ms / 1000 + 0.001, self._ring)

    def _ring(self) -> None:
        self._alarm = self._alarm_ms = None
        try:
            self.fire_due()
        finally:
            self._set_alarm()
