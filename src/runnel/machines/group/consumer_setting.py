"""What the broker and a group's own configuration say about consumer groups of the new protocol."""

from dataclasses import dataclass
from enum import StrEnum

from runnel.config.option import INT32_MAX
from runnel.config.unit import MINUTE_MS, SECOND_MS


class MigrationPolicy(StrEnum):
    """In which direction a group may change its protocol while it runs."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True)
class ConsumerGroupSetting:
    """The values that hold for one group."""

    session_timeout_ms: int = 45 * SECOND_MS
    heartbeat_interval_ms: int = 5 * SECOND_MS
    assignment_interval_ms: int = SECOND_MS
    regex_refresh_interval_ms: int = 10 * MINUTE_MS
    size_max: int = INT32_MAX
    classic_size_max: int = INT32_MAX
    assignors: tuple[str, ...] = ("uniform", "range")
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
