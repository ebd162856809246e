"""The configs of a consumer group, from its own config and that of the broker."""

from dataclasses import dataclass
from enum import StrEnum

from tailrace.base.sentinel import INT32_MAX
from tailrace.config.broker import BrokerConfig
from tailrace.config.group import GroupConfig
from tailrace.config.unit import MINUTE_MS, SECOND_MS


class MigrationPolicy(StrEnum):
    """The directions in which a group may migrate between the protocols while it runs."""

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
    """The configs of one consumer group."""

    session_timeout_ms: int = 45 * SECOND_MS
    heartbeat_interval_ms: int = 5 * SECOND_MS
    assignment_interval_ms: int = SECOND_MS
    regex_refresh_interval_ms: int = 10 * MINUTE_MS
    size_max: int = INT32_MAX
    classic_size_max: int = INT32_MAX
    assignors: tuple[str, ...] = ("uniform", "range")
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


def consumer_group_setting(group: GroupConfig, broker: BrokerConfig) -> ConsumerGroupSetting:
    """Build the configs of a group from its own config and that of the broker."""
    return ConsumerGroupSetting(
        session_timeout_ms=group.consumer_session_timeout_ms,
        heartbeat_interval_ms=group.consumer_heartbeat_interval_ms,
        assignment_interval_ms=group.consumer_assignment_interval_ms,
        regex_refresh_interval_ms=broker.group_consumer_regex_refresh_interval_ms,
        size_max=broker.group_consumer_max_size,
        classic_size_max=broker.value("group.max.size"),
        assignors=broker.group_consumer_assignors,
        migration=MigrationPolicy(broker.group_consumer_migration_policy.lower()),
    )
