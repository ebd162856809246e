"""Broker options of the log: where it lies, how it is kept, and the defaults that topics inherit."""

from runnel.config.check import Check, at_least, non_empty_list
from runnel.config.declaration import (
    integer,
    long,
    nullable_integer,
    nullable_long,
    nullable_string_list,
    string,
    string_list,
)
from runnel.config.option import INT64_MAX, Importance, UpdateMode
from runnel.config.policy import CLEANUP_POLICY, COMPRESSION, TIMESTAMP_TYPE
from runnel.config.unit import DAY_MS, GIB, HOUR_MS, KIB, MIB, MINUTE_MS

_RETENTION: Check[int] = Check("negative (for ever) or at least 1", lambda value: value != 0)

# Names that set the same thing in different units, the first that is set wins. As in Kafka, the
# scheduler interval gives log.flush.interval.ms its default but is not itself given one.
SYNONYM_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)


class LogOptions:
    """Where records lie and what a topic gets when it says nothing else."""

    log_dir = string_list(
        "log.dir",
        ("runnel-data",),
        "The folder of the log, if log.dirs is not set. Kafka's default lies in the system's temporary folder.",
        check=non_empty_list(),
        importance=Importance.HIGH,
    )
    log_dirs = nullable_string_list(
        "log.dirs",
        "The folders of the log, separated by commas; log.dir if it is not set.",
        check=non_empty_list(),
        importance=Importance.HIGH,
    )
    num_partitions = integer(
        "num.partitions", 1, "How many partitions a topic gets if its creator does not say.", check=at_least(1)
    )
    default_replication_factor = integer(
        "default.replication.factor",
        1,
        "How many replicas a partition gets if its creator does not say.",
        check=at_least(1),
    )
    message_max_bytes = integer(
        "message.max.bytes",
        MIB + 12,
        "The largest record batch, after compression, for topics without max.message.bytes.",
        check=at_least(0),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    min_insync_replicas = integer(
        "min.insync.replicas",
        1,
        "How many in-sync replicas a write with acks=all needs, for topics that do not say.",
        check=at_least(1),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    compression_type = string(
        "compression.type",
        "producer",
        "The compression of stored batches, for topics that do not say.",
        check=COMPRESSION,
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleanup_policy = string_list(
        "log.cleanup.policy",
        ("delete",),
        "The cleanup.policy of topics that do not say.",
        check=CLEANUP_POLICY,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_segment_bytes = integer(
        "log.segment.bytes",
        GIB,
        "The segment.bytes of topics that do not say.",
        check=at_least(MIB),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_segment_delete_delay_ms = long(
        "log.segment.delete.delay.ms",
        MINUTE_MS,
        "The file.delete.delay.ms of topics that do not say.",
        check=at_least(0),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_roll_ms = nullable_long(
        "log.roll.ms",
        "The segment.ms of topics that do not say; log.roll.hours if it is not set.",
        check=at_least(1),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_roll_hours = integer(
        "log.roll.hours",
        7 * 24,
        "The same as log.roll.ms, in hours.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    log_roll_jitter_ms = nullable_long(
        "log.roll.jitter.ms",
        "The segment.jitter.ms of topics that do not say; log.roll.jitter.hours if it is not set.",
        check=at_least(0),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_roll_jitter_hours = integer(
        "log.roll.jitter.hours",
        0,
        "The same as log.roll.jitter.ms, in hours.",
        check=at_least(0),
        importance=Importance.HIGH,
    )
    log_retention_ms = nullable_long(
        "log.retention.ms",
        "The retention.ms of topics that do not say; log.retention.minutes if it is not set.",
        check=_RETENTION,
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_retention_minutes = nullable_integer(
        "log.retention.minutes",
        "The same as log.retention.ms, in minutes; log.retention.hours if it is not set.",
        check=_RETENTION,
        importance=Importance.HIGH,
    )
    log_retention_hours = integer(
        "log.retention.hours",
        7 * 24,
        "The same as log.retention.ms, in hours.",
        check=_RETENTION,
        importance=Importance.HIGH,
    )
    log_retention_bytes = long(
        "log.retention.bytes",
        -1,
        "The retention.bytes of topics that do not say; -1 means without limit.",
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_retention_check_interval_ms = long(
        "log.retention.check.interval.ms",
        5 * MINUTE_MS,
        "How often logs are looked through for segments to delete.",
        check=at_least(1),
    )
    log_index_interval_bytes = integer(
        "log.index.interval.bytes",
        4 * KIB,
        "The index.interval.bytes of topics that do not say.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_index_size_max_bytes = integer(
        "log.index.size.max.bytes",
        10 * MIB,
        "The segment.index.bytes of topics that do not say.",
        check=at_least(4),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_flush_interval_messages = long(
        "log.flush.interval.messages",
        INT64_MAX,
        "The flush.messages of topics that do not say.",
        check=at_least(1),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_flush_interval_ms = nullable_long(
        "log.flush.interval.ms",
        "The flush.ms of topics that do not say; log.flush.scheduler.interval.ms if it is not set.",
        check=at_least(0),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_flush_scheduler_interval_ms = long(
        "log.flush.scheduler.interval.ms",
        INT64_MAX,
        "How often logs are looked through for records that flush.ms wants on disk.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        "log.flush.offset.checkpoint.interval.ms",
        MINUTE_MS,
        "How often it is written down up to where each log is on disk, from where recovery begins.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    log_message_timestamp_type = string(
        "log.message.timestamp.type",
        "CreateTime",
        "The message.timestamp.type of topics that do not say.",
        check=TIMESTAMP_TYPE,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_message_timestamp_before_max_ms = long(
        "log.message.timestamp.before.max.ms",
        INT64_MAX,
        "The message.timestamp.before.max.ms of topics that do not say.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_message_timestamp_after_max_ms = long(
        "log.message.timestamp.after.max.ms",
        HOUR_MS,
        "The message.timestamp.after.max.ms of topics that do not say.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    producer_id_expiration_ms = integer(
        "producer.id.expiration.ms",
        DAY_MS,
        "How long the sequence numbers of a producer that writes nothing are remembered.",
        check=at_least(1),
        importance=Importance.LOW,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
