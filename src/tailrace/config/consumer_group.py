"""Broker options of groups of the consumer protocol (KIP-848), and the conditions between them."""

from collections.abc import Callable, Iterator
from typing import Any

from tailrace.base.sentinel import INT32_MAX
from tailrace.config.check import Check, at_least, non_empty_list
from tailrace.config.declaration import integer, string, string_list
from tailrace.config.error import ConfigError
from tailrace.config.option import UpdateMode
from tailrace.config.unit import MINUTE_MS, SECOND_MS

ASSIGNORS = ("uniform", "range")
MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")


def _refuse_assignors(names: tuple[str, ...]) -> str | None:
    unknown = [name for name in names if name not in ASSIGNORS]
    return f"{unknown[0]} is not a supported assignor; the assignors are {' and '.join(ASSIGNORS)}" if unknown else None


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
        "Group protocols that are enabled; without consumer, groups of the consumer protocol are refused. Streams "
        "groups are never supported.",
        check=_PROTOCOLS,
    )
    group_consumer_assignment_interval_ms = integer(
        "group.consumer.assignment.interval.ms",
        SECOND_MS,
        "Shortest time between two assignments of a group.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    group_consumer_max_assignment_interval_ms = integer(
        "group.consumer.max.assignment.interval.ms",
        15 * SECOND_MS,
        "Upper bound of `consumer.assignment.interval.ms` of a group.",
        check=at_least(0),
    )
    group_consumer_min_assignment_interval_ms = integer(
        "group.consumer.min.assignment.interval.ms",
        0,
        "Lower bound of `consumer.assignment.interval.ms` of a group.",
        check=at_least(0),
    )
    group_consumer_heartbeat_interval_ms = integer(
        "group.consumer.heartbeat.interval.ms",
        5 * SECOND_MS,
        "Interval between two heartbeats of a member of a consumer group.",
        check=at_least(1),
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        "group.consumer.max.heartbeat.interval.ms",
        15 * SECOND_MS,
        "Upper bound of `consumer.heartbeat.interval.ms` of a group.",
        check=at_least(1),
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        "group.consumer.min.heartbeat.interval.ms",
        5 * SECOND_MS,
        "Lower bound of `consumer.heartbeat.interval.ms` of a group.",
        check=at_least(1),
    )
    group_consumer_session_timeout_ms = integer(
        "group.consumer.session.timeout.ms",
        45 * SECOND_MS,
        "Time without a heartbeat after which a member of a consumer group is removed.",
        check=at_least(1),
    )
    group_consumer_max_session_timeout_ms = integer(
        "group.consumer.max.session.timeout.ms",
        MINUTE_MS,
        "Upper bound of `consumer.session.timeout.ms` of a group.",
        check=at_least(1),
    )
    group_consumer_min_session_timeout_ms = integer(
        "group.consumer.min.session.timeout.ms",
        45 * SECOND_MS,
        "Lower bound of `consumer.session.timeout.ms` of a group.",
        check=at_least(1),
    )
    group_consumer_max_size = integer(
        "group.consumer.max.size", INT32_MAX, "Largest number of members of a consumer group.", check=at_least(1)
    )
    group_consumer_assignors = string_list(
        "group.consumer.assignors",
        ASSIGNORS,
        "Assignors that members may choose; groups that choose none use the first.",
        check=_ASSIGNOR_LIST,
    )
    group_consumer_migration_policy = string(
        "group.consumer.migration.policy",
        "bidirectional",
        "Whether a running group may change from the classic protocol to the consumer protocol (upgrade), back "
        "(downgrade), both, or neither.",
        check=_POLICY,
    )
    group_consumer_regex_refresh_interval_ms = integer(
        "group.consumer.regex.refresh.interval.ms",
        10 * MINUTE_MS,
        "Interval after which the regular expressions of subscriptions are matched again even if no topic was created.",
        check=at_least(10 * SECOND_MS),
    )


_BOUNDED = ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")


def consumer_group_problems(value: Callable[[str], Any]) -> Iterator[ConfigError]:
    """Yield the errors between these options; `value` returns the value of an option by its name."""
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
