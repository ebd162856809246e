"""Broker options of leadership: elections, the return to preferred leaders, and controlled shutdown."""

from tailrace.config.check import at_least
from tailrace.config.declaration import boolean, integer, long
from tailrace.config.option import Importance, UpdateMode
from tailrace.config.unit import MINUTE_MS, SECOND_MS


class ControllerOptions:
    """The options of leadership."""

    auto_leader_rebalance_enable = boolean(
        "auto.leader.rebalance.enable",
        True,
        "Whether the preferred leader, the first replica of a partition, is elected again after it has returned.",
        importance=Importance.HIGH,
    )
    leader_imbalance_check_interval_seconds = long(
        "leader.imbalance.check.interval.seconds",
        300,
        "Interval between two checks of the controller for brokers that lead too few of their partitions.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    leader_imbalance_per_broker_percentage = integer(
        "leader.imbalance.per.broker.percentage",
        10,
        "Percentage of the partitions with this broker as preferred leader that other brokers may lead before the "
        "controller elects it.",
        importance=Importance.HIGH,
    )
    unclean_leader_election_enable = boolean(
        "unclean.leader.election.enable",
        False,
        "Default `unclean.leader.election.enable` for topics that do not set it.",
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    controlled_shutdown_enable = boolean(
        "controlled.shutdown.enable",
        True,
        "Whether a broker hands over the leadership of its partitions before it stops.",
    )
    controlled_shutdown_max_retries = integer(
        "controlled.shutdown.max.retries",
        3,
        "Number of times that a stopping broker waits `controlled.shutdown.retry.backoff.ms` for other brokers to "
        "take over.",
    )
    controlled_shutdown_retry_backoff_ms = long(
        "controlled.shutdown.retry.backoff.ms",
        5 * SECOND_MS,
        "Wait of a stopping broker for other brokers to take over; see `controlled.shutdown.max.retries`.",
    )
    initial_broker_registration_timeout_ms = integer(
        "initial.broker.registration.timeout.ms",
        MINUTE_MS,
        "Time that a starting broker waits for the session of its predecessor to end, and for the controller.",
    )
