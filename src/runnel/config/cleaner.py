"""Broker options of log compaction, and the defaults that topics inherit for it."""

from runnel.config.check import Check, at_least, between
from runnel.config.declaration import boolean, double, integer, long
from runnel.config.option import INT64_MAX, UpdateMode
from runnel.config.unit import DAY_MS, KIB, MIB, SECOND_MS

DEDUPE_BYTES_PER_THREAD_MIN = MIB
_RATE: Check[float] = Check("greater than 0", lambda value: value > 0)
_LOAD_FACTOR: Check[float] = Check("greater than 0 and at most 1", lambda value: 0 < value <= 1)


class CleanerOptions:
    """How logs are compacted."""

    log_cleaner_enable = boolean("log.cleaner.enable", True, "Whether logs with cleanup.policy compact are compacted.")
    log_cleaner_threads = integer(
        "log.cleaner.threads",
        1,
        "How many logs are compacted at the same time, each in a thread.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_backoff_ms = long(
        "log.cleaner.backoff.ms",
        15 * SECOND_MS,
        "How long to wait when no log has to be compacted, and before a log is tried again that could not be.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size = long(
        "log.cleaner.dedupe.buffer.size",
        128 * MIB,
        "The memory for the keys of logs that are being compacted, for all threads together; a key takes 24 bytes. "
        "A log with more keys is compacted in several rounds.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_load_factor = double(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "Which part of that memory may be filled; searching takes longer in a fuller one.",
        check=_LOAD_FACTOR,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_size = integer(
        "log.cleaner.io.buffer.size",
        512 * KIB,
        "The memory for reading and writing, for all threads together.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_io_max_bytes_per_second = double(
        "log.cleaner.io.max.bytes.per.second",
        1.7976931348623157e308,
        "How many bytes all threads together may read and write in a second.",
        check=_RATE,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_delete_retention_ms = long(
        "log.cleaner.delete.retention.ms",
        DAY_MS,
        "The delete.retention.ms of topics that do not say.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_max_compaction_lag_ms = long(
        "log.cleaner.max.compaction.lag.ms",
        INT64_MAX,
        "The max.compaction.lag.ms of topics that do not say.",
        check=at_least(1),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_min_compaction_lag_ms = long(
        "log.cleaner.min.compaction.lag.ms",
        0,
        "The min.compaction.lag.ms of topics that do not say.",
        check=at_least(0),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_min_cleanable_ratio = double(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        "The min.cleanable.dirty.ratio of topics that do not say.",
        check=between(0, 1),
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
