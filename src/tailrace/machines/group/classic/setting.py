"""The configs of classic groups."""

from dataclasses import dataclass

from tailrace.base.sentinel import INT32_MAX
from tailrace.config.unit import MINUTE_MS, SECOND_MS


@dataclass(frozen=True, slots=True)
class ClassicGroupSetting:
    """The configs of all classic groups of a broker."""

    session_timeout_min_ms: int = 6 * SECOND_MS
    session_timeout_max_ms: int = 30 * MINUTE_MS
    size_max: int = INT32_MAX
    initial_rebalance_delay_ms: int = 3 * SECOND_MS
    # A member that waits for its first join cannot send heartbeats, so it gets this time in place of its session.
    new_member_timeout_ms: int = 5 * MINUTE_MS
