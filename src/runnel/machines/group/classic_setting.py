"""What the broker's configuration says about classic groups."""

from dataclasses import dataclass

from runnel.config.option import INT32_MAX
from runnel.config.unit import MINUTE_MS, SECOND_MS


@dataclass(frozen=True, slots=True)
class ClassicGroupSetting:
    """The values that hold for all classic groups of a broker."""

    session_timeout_min_ms: int = 6 * SECOND_MS
    session_timeout_max_ms: int = 30 * MINUTE_MS
    size_max: int = INT32_MAX
    initial_rebalance_delay_ms: int = 3 * SECOND_MS
    # A member that joins for the first time cannot send heartbeats; if its client is gone, its place goes after this.
    new_member_timeout_ms: int = 5 * MINUTE_MS
