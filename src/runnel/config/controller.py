"""Broker options of leadership: who may lead, when leaders move back, and how a broker hands over before it stops."""

from runnel.config.check import at_least
from runnel.config.declaration import boolean, integer, long
from runnel.config.option import Importance, UpdateMode
from runnel.config.unit import MINUTE_MS, SECOND_MS


class ControllerOptions:
    """What the controller goes by, and what brokers expect of it."""

    auto_leader_rebalance_enable = boolean(
        "auto.leader.rebalance.enable",
        True,
        "Whether partitions are led again by the first of their replicas when that one is back.",
        importance=Importance.HIGH,
    )
    leader_imbalance_check_interval_seconds = long(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the controller looks for brokers that lead too few of their partitions.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    leader_imbalance_per_broker_percentage = integer(
        "leader.imbalance.per.broker.percentage",
        10,
        "How many in a hundred of the partitions that a broker should lead may be led by others.",
        importance=Importance.HIGH,
    )
    unclean_leader_election_enable = boolean(
        "unclean.leader.election.enable",
        False,
        "Whether a replica that lacks records may lead when no other can, for topics that do not say.",
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    controlled_shutdown_enable = boolean(
        "controlled.shutdown.enable", True, "Whether others lead a broker's partitions before it stops."
    )
    controlled_shutdown_max_retries = integer(
        "controlled.shutdown.max.retries",
        3,
        "For how many times controlled.shutdown.retry.backoff.ms a broker waits for others to lead its partitions.",
    )
    controlled_shutdown_retry_backoff_ms = long(
        "controlled.shutdown.retry.backoff.ms",
        5 * SECOND_MS,
        "See controlled.shutdown.max.retries.",
    )
    initial_broker_registration_timeout_ms = integer(
        "initial.broker.registration.timeout.ms",
        MINUTE_MS,
        "How long a broker that starts waits for the session of its predecessor to end, and for the controller.",
    )
