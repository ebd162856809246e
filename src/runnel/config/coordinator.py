"""Broker options of groups: their members' time-outs, and the topic that keeps their state."""

from runnel.config.check import at_least, between
from runnel.config.declaration import integer, long, short
from runnel.config.option import INT32_MAX, Importance
from runnel.config.unit import KIB, MIB, MINUTE_MS, SECOND_MS


class CoordinatorOptions:
    """How long members and offsets are waited for, and where they are kept."""

    group_initial_rebalance_delay_ms = integer(
        "group.initial.rebalance.delay.ms",
        3 * SECOND_MS,
        "How long an empty classic group waits for more members after the first. It is waited again, up to the "
        "rebalance timeout of the members, while more of them come.",
    )
    group_min_session_timeout_ms = integer(
        "group.min.session.timeout.ms",
        6 * SECOND_MS,
        "The shortest session timeout that a member of a classic group may ask for.",
    )
    group_max_session_timeout_ms = integer(
        "group.max.session.timeout.ms",
        30 * MINUTE_MS,
        "The longest session timeout that a member of a classic group may ask for.",
    )
    group_max_size = integer(
        "group.max.size", INT32_MAX, "How many members a classic group may have.", check=at_least(1)
    )
    offset_metadata_max_bytes = integer(
        "offset.metadata.max.bytes", 4 * KIB, "How long the text beside a committed offset may be.", check=at_least(0)
    )
    offsets_retention_minutes = integer(
        "offsets.retention.minutes",
        7 * 24 * 60,
        "How long offsets are kept after their group became empty or, for consumers without a group, after the commit.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offsets_retention_check_interval_ms = long(
        "offsets.retention.check.interval.ms",
        10 * MINUTE_MS,
        "How often offsets are looked through for old ones.",
        check=at_least(1),
    )
    offsets_topic_num_partitions = integer(
        "offsets.topic.num.partitions",
        50,
        "How many partitions __consumer_offsets gets. It must not change once groups exist.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offsets_topic_replication_factor = short(
        "offsets.topic.replication.factor",
        3,
        "How many replicas __consumer_offsets gets. It is made once there are so many brokers; one that is alone by "
        "its configuration makes it with one.",
        check=at_least(1),
        importance=Importance.HIGH,
    )
    offsets_topic_segment_bytes = integer(
        "offsets.topic.segment.bytes",
        100 * MIB,
        "How large a segment of __consumer_offsets gets.",
        check=at_least(1),
    )
    offsets_topic_compression_codec = integer(
        "offsets.topic.compression.codec",
        0,
        "How __consumer_offsets is compressed: 0 not at all, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        check=between(0, 4),
    )
    offsets_commit_timeout_ms = integer(
        "offsets.commit.timeout.ms",
        5 * SECOND_MS,
        "How long what a coordinator writes may take to be on all replicas in sync.",
        check=at_least(1),
    )
    offsets_load_buffer_size = integer(
        "offsets.load.buffer.size",
        5 * MIB,
        "How much of __consumer_offsets is read at once when it is loaded.",
        check=at_least(1),
    )
