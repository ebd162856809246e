"""The topics of coordinators: which partition a group or transactional id belongs to, and the configs of new topics."""

import sys

from tailrace.config.broker import BrokerConfig
from tailrace.config.policy import CLEANUP_POLICY
from tailrace.machines.controller.topic import NewTopic

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"

_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


def partition_for(name: str, partition_count: int) -> int:
    """Return the partition of a name, as Kafka does: the absolute value of Java's string hash, modulo the count."""
    number = 0
    # A name may have 32 KB, so the letters are not decoded one by one.
    for unit in name.encode() if name.isascii() else memoryview(name.encode(_UTF_16, "surrogatepass")).cast("H"):
        number = (31 * number + unit) & 0xFFFFFFFF
    if number == 1 << 31:
        return 0  # the one number that has no absolute value in Java
    return min(number, (1 << 32) - number) % partition_count


def offsets_topic(config: BrokerConfig, broker_count: int) -> NewTopic:
    """Return the new topic of groups, with the configs that Kafka gives it.

    A broker without a cluster gets one replica. In a cluster the topic always gets its replication factor, so that the
    first broker to start does not keep the offsets of all groups alone for ever.
    """
    if config.zookeeper_connect is not None:
        broker_count = config.offsets_topic_replication_factor
    configs = {"segment.bytes": str(config.offsets_topic_segment_bytes), "compression.type": "producer"}
    if CLEANUP_POLICY.holds(("compact",)):
        configs["cleanup.policy"] = "compact"
    else:
        configs["retention.ms"] = "-1"  # what cannot be compacted must be kept
    return NewTopic(
        OFFSETS_TOPIC,
        config.offsets_topic_num_partitions,
        min(config.offsets_topic_replication_factor, broker_count),
        configs=configs,
    )


def transaction_topic(config: BrokerConfig, broker_count: int) -> NewTopic:
    """Return the new topic of transactions, with the configs that Kafka gives it; see `offsets_topic`."""
    if config.zookeeper_connect is not None:
        broker_count = config.transaction_state_log_replication_factor
    configs = {
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "compression.type": "producer",  # the coordinator compresses nothing, where Kafka says uncompressed
        "min.insync.replicas": str(config.transaction_state_log_min_isr),
        "unclean.leader.election.enable": "false",
    }
    if CLEANUP_POLICY.holds(("compact",)):
        configs["cleanup.policy"] = "compact"
    else:
        configs["retention.ms"] = "-1"
    return NewTopic(
        TRANSACTION_TOPIC,
        config.transaction_state_log_num_partitions,
        min(config.transaction_state_log_replication_factor, broker_count),
        configs=configs,
    )
