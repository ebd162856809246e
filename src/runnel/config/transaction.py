"""Broker options of transactions: how long they may take, and the topic that keeps their state."""

from runnel.config.check import at_least
from runnel.config.declaration import boolean, integer, short
from runnel.config.option import Importance, UpdateMode
from runnel.config.unit import DAY_MS, HOUR_MS, MIB, MINUTE_MS, SECOND_MS


class TransactionOptions:
    """What a coordinator of transactions lives by."""

    transaction_max_timeout_ms = integer(
        "transaction.max.timeout.ms",
        15 * MINUTE_MS,
        "The longest time-out that a producer may ask for its transactions.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transactional_id_expiration_ms = integer(
        "transactional.id.expiration.ms",
        7 * DAY_MS,
        "How long a transactional id is remembered that nobody uses. One with an open transaction is not forgotten.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10 * SECOND_MS,
        "How often transactions are looked through for those that took longer than their time-out. They are aborted.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        HOUR_MS,
        "How often transactional ids are looked through for those that have expired.",
        check=at_least(1),
        importance=Importance.LOW,
    )
    transaction_two_phase_commit_enable = boolean(
        "transaction.two.phase.commit.enable",
        True,
        "Whether a producer may leave the decision about its transactions to somebody else (KIP-939). Such "
        "transactions have no time-out, and hold back readers of committed records until they are decided. Kafka's "
        "default is false; pipelines on Spark write exactly once by this.",
        importance=Importance.LOW,
    )
    transaction_partition_verification_enable = boolean(
        "transaction.partition.verification.enable",
        True,
        "Whether the first batch of a transaction in a partition is checked with the coordinator. Without it a late "
        "batch of a former transaction may hold back readers for ever. Producers that have their partitions added "
        "with the batch (KIP-890) are checked in any case.",
        importance=Importance.LOW,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        "How long a partition's leader waits before it asks again to add the partition to a transaction, while the one "
        "before is still being ended.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    add_partitions_to_txn_retry_backoff_max_ms = integer(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        "How long it goes on with that before the producer has to ask again.",
        check=at_least(0),
        importance=Importance.HIGH,
    )
    transaction_state_log_num_partitions = integer(
        "transaction.state.log.num.partitions",
        50,
        "How many partitions __transaction_state gets. It must not change once there are transactional ids.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_state_log_replication_factor = short(
        "transaction.state.log.replication.factor",
        3,
        "How many replicas __transaction_state gets. It is made once there are so many brokers; one that is alone by "
        "its configuration makes it with one.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_state_log_min_isr = integer(
        "transaction.state.log.min.isr",
        2,
        "How many replicas of __transaction_state must be in sync for a transaction to go on.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_state_log_segment_bytes = integer(
        "transaction.state.log.segment.bytes",
        100 * MIB,
        "How large a segment of __transaction_state gets.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    transaction_state_log_load_buffer_size = integer(
        "transaction.state.log.load.buffer.size",
        5 * MIB,
        "How much of __transaction_state is read at once when it is loaded.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
