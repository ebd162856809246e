"""Broker options of transactions: timeouts, and the topic of their state."""

from tailrace.config.check import at_least
from tailrace.config.declaration import boolean, integer, short
from tailrace.config.option import Importance, UpdateMode
from tailrace.config.unit import DAY_MS, HOUR_MS, MIB, MINUTE_MS, SECOND_MS


class TransactionOptions:
    """The options of transaction coordinators."""

    transaction_max_timeout_ms = integer(
        "transaction.max.timeout.ms",
        15 * MINUTE_MS,
        "Longest transaction timeout that a producer may set.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transactional_id_expiration_ms = integer(
        "transactional.id.expiration.ms",
        7 * DAY_MS,
        "Time after which a transactional id that is not used expires. One with an open transaction does not expire.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10 * SECOND_MS,
        "Interval between two checks for transactions that exceeded their timeout, which are aborted.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        HOUR_MS,
        "Interval between two checks for expired transactional ids.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    transaction_two_phase_commit_enable = boolean(
        "transaction.two.phase.commit.enable",
        True,
        "Whether a producer may leave the decision about its transactions to another system (KIP-939). Such "
        "transactions have no timeout, and consumers of committed records wait until they are decided. Kafka's "
        "default is false; Tailrace enables it because pipelines on Spark need it to write exactly once.",
        importance=Importance.LOW,
    )
    transaction_partition_verification_enable = boolean(
        "transaction.partition.verification.enable",
        True,
        "Whether the leader verifies the first batch of a transaction in a partition with the coordinator. Without "
        "it, a late batch of an earlier transaction may block consumers of committed records for ever. Producers "
        "that add partitions with the batch (KIP-890) are always verified.",
        importance=Importance.LOW,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        "Delay before a partition's leader asks the coordinator again to add the partition to a transaction, while "
        "the previous transaction is being completed.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    add_partitions_to_txn_retry_backoff_max_ms = integer(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "Time for which the leader repeats this before the producer has to retry.",
        check=at_least(0),
        importance=Importance.HIGH,
    )
    transaction_state_log_num_partitions = integer(
        "transaction.state.log.num.partitions",
        50,
        "Number of partitions of __transaction_state. It must not change once transactional ids exist.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_state_log_replication_factor = short(
        "transaction.state.log.replication.factor",
        3,
        "Replication factor of __transaction_state. The topic is created once there are that many brokers; a broker "
        "without ZooKeeper creates it with one replica.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_state_log_min_isr = integer(
        "transaction.state.log.min.isr",
        2,
        "Number of replicas of __transaction_state that must be in sync for a transaction to continue.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_state_log_segment_bytes = integer(
        "transaction.state.log.segment.bytes",
        100 * MIB,
        "Segment size of __transaction_state.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_state_log_load_buffer_size = integer(
        "transaction.state.log.load.buffer.size",
        5 * MIB,
        "Bytes of __transaction_state that are read at once while it is loaded.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
