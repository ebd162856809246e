"""Broker options of log compaction, and the defaults that topics inherit for it."""

from tailrace.base.sentinel import INT64_MAX
from tailrace.config.check import Check, at_least, between
from tailrace.config.declaration import boolean, double, integer, long
from tailrace.config.option import UpdateMode
from tailrace.config.unit import DAY_MS, KIB, MIB, SECOND_MS

DEDUPE_BYTES_PER_THREAD_MIN = MIB
_RATE: Check[float] = Check("greater than 0", lambda value: value > 0)
_LOAD_FACTOR: Check[float] = Check("greater than 0 and at most 1", lambda value: 0 < value <= 1)


class CleanerOptions:
    """The options of log compaction."""

    log_cleaner_enable = boolean(
        "log.cleaner.enable", True, "Whether logs with the cleanup policy compact are compacted."
    )
    log_cleaner_threads = integer(
        "log.cleaner.threads",
        1,
        "Number of logs that are compacted at the same time, each in its own thread.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_backoff_ms = long(
        "log.cleaner.backoff.ms",
        15 * SECOND_MS,
        "Delay before the next search if no log needs compaction, and before a compaction that failed is tried again.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size = long(
        "log.cleaner.dedupe.buffer.size",
        128 * MIB,
        "Memory for the keys of the logs that are being compacted, shared by all threads; a key takes 24 bytes. A "
        "log with more keys is compacted in several rounds.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_load_factor = double(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "Part of `log.cleaner.dedupe.buffer.size` that may be filled; lookups take longer in a fuller buffer.",
        check=_LOAD_FACTOR,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_size = integer(
        "log.cleaner.io.buffer.size",
        512 * KIB,
        "Memory for reading and writing, shared by all threads.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_io_max_bytes_per_second = double(
        "log.cleaner.io.max.bytes.per.second",
        1.7976931348623157e308,
        "Bytes per second that all threads together may read and write.",
        check=_RATE,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_delete_retention_ms = long(
        "log.cleaner.delete.retention.ms",
        DAY_MS,
        "Default `delete.retention.ms` for topics that do not set it.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_max_compaction_lag_ms = long(
        "log.cleaner.max.compaction.lag.ms",
        INT64_MAX,
        "Default `max.compaction.lag.ms` for topics that do not set it.",
        check=at_least(1),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_min_compaction_lag_ms = long(
        "log.cleaner.min.compaction.lag.ms",
        0,
        "Default `min.compaction.lag.ms` for topics that do not set it.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_min_cleanable_ratio = double(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        "Default `min.cleanable.dirty.ratio` for topics that do not set it.",
        check=between(0, 1),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
