"""Broker options of consumer groups of the new protocol (KIP-848), and what they must be together."""

from collections.abc import Callable, Iterator
from typing import Any

from runnel.config.check import Check, at_least, non_empty_list
from runnel.config.declaration import integer, string, string_list
from runnel.config.error import ConfigError
from runnel.config.option import INT32_MAX, UpdateMode
from runnel.config.unit import MINUTE_MS, SECOND_MS

ASSIGNORS = ("uniform", "range")
MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")


def _refuse_assignors(names: tuple[str, ...]) -> str | None:
    unknown = [name for name in names if name not in ASSIGNORS]
    return f"{unknown[0]} is not an assignor that Runnel has: there are {' and '.join(ASSIGNORS)}" if unknown else None


_ASSIGNOR_LIST: Check[tuple[str, ...]] = Check(
    f"a list of different ones of {', '.join(ASSIGNORS)}",
    lambda names: non_empty_list().holds(names) and set(names) <= set(ASSIGNORS),
    _refuse_assignors,
)
_POLICY: Check[str] = Check(
    f"one of {', '.join(MIGRATION_POLICIES)}", lambda policy: policy.lower() in MIGRATION_POLICIES
)

_PROTOCOLS: Check[tuple[str, ...]] = Check(
    "a list of classic and any of consumer, share, streams",
    lambda names: "classic" in names and set(names) <= {"classic", "consumer", "share", "streams"},
)


class ConsumerGroupOptions:
    """The options that begin with `group.consumer.`; a group may have its own values within their bounds."""

    group_coordinator_rebalance_protocols = string_list(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        "The protocols of groups that are on; without consumer, groups of the new protocol are refused. Streams groups "
        "do not exist here either way.",
        check=_PROTOCOLS,
    )
    group_consumer_assignment_interval_ms = integer(
        "group.consumer.assignment.interval.ms",
        SECOND_MS,
        "How long a division of partitions holds before the next one is computed.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    group_consumer_max_assignment_interval_ms = integer(
        "group.consumer.max.assignment.interval.ms",
        15 * SECOND_MS,
        "The longest that a group may set.",
        check=at_least(0),
    )
    group_consumer_min_assignment_interval_ms = integer(
        "group.consumer.min.assignment.interval.ms", 0, "The shortest that a group may set.", check=at_least(0)
    )
    group_consumer_heartbeat_interval_ms = integer(
        "group.consumer.heartbeat.interval.ms",
        5 * SECOND_MS,
        "How often a member of a consumer group reports.",
        check=at_least(1),
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        "group.consumer.max.heartbeat.interval.ms",
        15 * SECOND_MS,
        "The longest that a group may set.",
        check=at_least(1),
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        "group.consumer.min.heartbeat.interval.ms",
        5 * SECOND_MS,
        "The shortest that a group may set.",
        check=at_least(1),
    )
    group_consumer_session_timeout_ms = integer(
        "group.consumer.session.timeout.ms",
        45 * SECOND_MS,
        "How long a member of a consumer group may be silent before it is taken for dead.",
        check=at_least(1),
    )
    group_consumer_max_session_timeout_ms = integer(
        "group.consumer.max.session.timeout.ms", MINUTE_MS, "The longest that a group may set.", check=at_least(1)
    )
    group_consumer_min_session_timeout_ms = integer(
        "group.consumer.min.session.timeout.ms", 45 * SECOND_MS, "The shortest that a group may set.", check=at_least(1)
    )
    group_consumer_max_size = integer(
        "group.consumer.max.size", INT32_MAX, "The most members of a consumer group.", check=at_least(1)
    )
    group_consumer_assignors = string_list(
        "group.consumer.assignors",
        ASSIGNORS,
        "The assignors that members may ask for; the first one is for groups that ask for none.",
        check=_ASSIGNOR_LIST,
    )
    group_consumer_migration_policy = string(
        "group.consumer.migration.policy",
        "bidirectional",
        "Whether a running group may change from the classic protocol to the new one (upgrade), back (downgrade), "
        "both, or neither.",
        check=_POLICY,
    )
    group_consumer_regex_refresh_interval_ms = integer(
        "group.consumer.regex.refresh.interval.ms",
        10 * MINUTE_MS,
        "How often regular expressions are matched again even if no topic was created.",
        check=at_least(10 * SECOND_MS),
    )


_BOUNDED = ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")


def consumer_group_problems(value: Callable[[str], Any]) -> Iterator[ConfigError]:
    """Yield what is wrong with these options together; `value` gives the value of an option by its name."""
    for name in _BOUNDED:
        lowest, highest = f"group.consumer.min.{name}", f"group.consumer.max.{name}"
        own = f"group.consumer.{name}"
        if value(highest) < value(lowest):
            yield ConfigError(highest, f"{highest} must be greater than or equal to {lowest}")
        elif value(own) < value(lowest):
            yield ConfigError(own, f"{own} must be greater than or equal to {lowest}")
        elif value(own) > value(highest):
            yield ConfigError(own, f"{own} must be less than or equal to {highest}")
    heartbeat, session = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
    if value(heartbeat) >= value(session):
        yield ConfigError(heartbeat, f"{heartbeat} must be less than {session}")
