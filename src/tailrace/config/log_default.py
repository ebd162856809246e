"""Broker options of the log: its folders, its maintenance, and the defaults that topics inherit."""

from tailrace.base.sentinel import INT64_MAX
from tailrace.config.check import Check, at_least, non_empty_list
from tailrace.config.declaration import (
    integer,
    long,
    nullable_integer,
    nullable_long,
    nullable_string_list,
    string,
    string_list,
)
from tailrace.config.option import Importance, UpdateMode
from tailrace.config.policy import (
    CLEANUP_POLICY,
    COMPRESSION,
    GZIP_LEVEL,
    GZIP_LEVEL_DEFAULT,
    LZ4_LEVEL,
    LZ4_LEVEL_DEFAULT,
    TIMESTAMP_TYPE,
    ZSTD_LEVEL,
    ZSTD_LEVEL_DEFAULT,
)
from tailrace.config.unit import DAY_MS, GIB, HOUR_MS, KIB, MIB, MINUTE_MS

_RETENTION: Check[int] = Check("negative (for ever) or at least 1", lambda value: value != 0)

# Options that set the same value in different units; the first that is set wins. As in Kafka, the
# scheduler interval gives log.flush.interval.ms its default but is not itself given one.
SYNONYM_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)


class LogOptions:
    """The log folders and the defaults of topics."""

    log_dir = string_list(
        "log.dir",
        ("tailrace-data",),
        "Log folder if `log.dirs` is not set. Kafka's default is in the system's temporary folder.",
        check=non_empty_list(),
        importance=Importance.HIGH,
    )
    log_dirs = nullable_string_list(
        "log.dirs",
        "Log folders, separated by commas. If it is not set, `log.dir` is used.",
        check=non_empty_list(),
        importance=Importance.HIGH,
    )
    num_partitions = integer("num.partitions", 1, "Default number of partitions of a new topic.", check=at_least(1))
    default_replication_factor = integer(
        "default.replication.factor",
        1,
        "Default replication factor of a new topic.",
        check=at_least(1),
    )
    message_max_bytes = integer(
        "message.max.bytes",
        MIB + 12,
        "Default `max.message.bytes` for topics that do not set it.",
        check=at_least(0),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    min_insync_replicas = integer(
        "min.insync.replicas",
        1,
        "Default `min.insync.replicas` for topics that do not set it.",
        check=at_least(1),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    compression_type = string(
        "compression.type",
        "producer",
        "Default `compression.type` for topics that do not set it.",
        check=COMPRESSION,
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    compression_gzip_level = integer(
        "compression.gzip.level",
        GZIP_LEVEL_DEFAULT,
        "Default `compression.gzip.level` for topics that do not set it.",
        check=GZIP_LEVEL,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    compression_lz4_level = integer(
        "compression.lz4.level",
        LZ4_LEVEL_DEFAULT,
        "Default `compression.lz4.level` for topics that do not set it.",
        check=LZ4_LEVEL,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    compression_zstd_level = integer(
        "compression.zstd.level",
        ZSTD_LEVEL_DEFAULT,
        "Default `compression.zstd.level` for topics that do not set it.",
        check=ZSTD_LEVEL,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleanup_policy = string_list(
        "log.cleanup.policy",
        ("delete",),
        "Default `cleanup.policy` for topics that do not set it.",
        check=CLEANUP_POLICY,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_segment_bytes = integer(
        "log.segment.bytes",
        GIB,
        "Default `segment.bytes` for topics that do not set it.",
        check=at_least(MIB),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_segment_delete_delay_ms = long(
        "log.segment.delete.delay.ms",
        MINUTE_MS,
        "Default `file.delete.delay.ms` for topics that do not set it.",
        check=at_least(0),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_roll_ms = nullable_long(
        "log.roll.ms",
        "Default `segment.ms` for topics that do not set it; log.roll.hours if it is not set.",
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
        "Default `segment.jitter.ms` for topics that do not set it; log.roll.jitter.hours if it is not set.",
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
        "Default `retention.ms` for topics that do not set it; log.retention.minutes if it is not set.",
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
        "Default `retention.bytes` for topics that do not set it; -1 means without limit.",
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_retention_check_interval_ms = long(
        "log.retention.check.interval.ms",
        5 * MINUTE_MS,
        "Interval between two checks for segments that retention deletes.",
        check=at_least(1),
    )
    log_index_interval_bytes = integer(
        "log.index.interval.bytes",
        4 * KIB,
        "Default `index.interval.bytes` for topics that do not set it.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_index_size_max_bytes = integer(
        "log.index.size.max.bytes",
        10 * MIB,
        "Default `segment.index.bytes` for topics that do not set it.",
        check=at_least(4),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_flush_interval_messages = long(
        "log.flush.interval.messages",
        INT64_MAX,
        "Default `flush.messages` for topics that do not set it.",
        check=at_least(1),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_flush_interval_ms = nullable_long(
        "log.flush.interval.ms",
        "Default `flush.ms` for topics that do not set it; log.flush.scheduler.interval.ms if it is not set.",
        check=at_least(0),
        importance=Importance.HIGH,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_flush_scheduler_interval_ms = long(
        "log.flush.scheduler.interval.ms",
        INT64_MAX,
        "Interval between two checks for records that `flush.ms` requires on disk.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        "log.flush.offset.checkpoint.interval.ms",
        MINUTE_MS,
        "Interval between two writes of the recovery points, from which recovery scans each log.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    log_message_timestamp_type = string(
        "log.message.timestamp.type",
        "CreateTime",
        "Default `message.timestamp.type` for topics that do not set it.",
        check=TIMESTAMP_TYPE,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_message_timestamp_before_max_ms = long(
        "log.message.timestamp.before.max.ms",
        INT64_MAX,
        "Default `message.timestamp.before.max.ms` for topics that do not set it.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_message_timestamp_after_max_ms = long(
        "log.message.timestamp.after.max.ms",
        HOUR_MS,
        "Default `message.timestamp.after.max.ms` for topics that do not set it.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    producer_id_expiration_check_interval_ms = integer(
        "producer.id.expiration.check.interval.ms",
        10 * MINUTE_MS,
        "Interval between two searches for producers that `producer.id.expiration.ms` expires.",
        check=at_least(1),
        importance=Importance.LOW,
        is_hidden=True,
    )
    producer_id_expiration_ms = integer(
        "producer.id.expiration.ms",
        DAY_MS,
        "Time after which the broker forgets the sequence numbers of a producer that writes nothing.",
        check=at_least(1),
        importance=Importance.LOW,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
