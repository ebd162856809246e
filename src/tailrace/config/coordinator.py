"""Broker options of groups: timeouts of members, retention of offsets, and the topic of their state."""

from tailrace.base.sentinel import INT32_MAX
from tailrace.config.check import at_least, between
from tailrace.config.declaration import integer, long, short
from tailrace.config.option import Importance
from tailrace.config.unit import KIB, MIB, MINUTE_MS, SECOND_MS


class CoordinatorOptions:
    """The options of group coordinators."""

    group_initial_rebalance_delay_ms = integer(
        "group.initial.rebalance.delay.ms",
        3 * SECOND_MS,
        "Time that an empty classic group waits for more members after the first one. Each new member extends the "
        "wait, up to the rebalance timeout of the members.",
    )
    group_min_session_timeout_ms = integer(
        "group.min.session.timeout.ms",
        6 * SECOND_MS,
        "Shortest session timeout that a member of a classic group may set.",
    )
    group_max_session_timeout_ms = integer(
        "group.max.session.timeout.ms",
        30 * MINUTE_MS,
        "Longest session timeout that a member of a classic group may set.",
    )
    group_max_size = integer(
        "group.max.size", INT32_MAX, "Largest number of members of a classic group.", check=at_least(1)
    )
    offset_metadata_max_bytes = integer(
        "offset.metadata.max.bytes",
        4 * KIB,
        "Largest size of the text that a client stores with a committed offset.",
        check=at_least(0),
    )
    offsets_retention_minutes = integer(
        "offsets.retention.minutes",
        7 * 24 * 60,
        "Time for which offsets are kept after their group became empty or, for consumers without a group, after "
        "the commit.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offsets_retention_check_interval_ms = long(
        "offsets.retention.check.interval.ms",
        10 * MINUTE_MS,
        "Interval between two checks for expired offsets.",
        check=at_least(1),
    )
    offsets_topic_num_partitions = integer(
        "offsets.topic.num.partitions",
        50,
        "Number of partitions of __consumer_offsets. It must not change once groups exist.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offsets_topic_replication_factor = short(
        "offsets.topic.replication.factor",
        3,
        "Replication factor of __consumer_offsets. The topic is created once there are that many brokers; a broker "
        "without ZooKeeper creates it with one replica.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offsets_topic_segment_bytes = integer(
        "offsets.topic.segment.bytes",
        100 * MIB,
        "Segment size of __consumer_offsets.",
        check=at_least(1),
    )
    offsets_topic_compression_codec = integer(
        "offsets.topic.compression.codec",
        0,
        "Compression of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        check=between(0, 4),
    )
    offsets_commit_timeout_ms = integer(
        "offsets.commit.timeout.ms",
        5 * SECOND_MS,
        "Time within which the writes of a coordinator must be on all replicas in sync.",
        check=at_least(1),
    )
    offsets_load_buffer_size = integer(
        "offsets.load.buffer.size",
        5 * MIB,
        "Bytes of __consumer_offsets that are read at once while it is loaded.",
        check=at_least(1),
    )
