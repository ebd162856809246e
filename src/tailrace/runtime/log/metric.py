"""Metrics of logs and of their compaction, with the names that Kafka's metrics have in Prometheus."""

from collections import Counter as Tally
from collections.abc import Callable, Sequence
from itertools import islice

from tailrace.base.limits import METRIC_LAG_SERIES_MAX
from tailrace.base.metric import Reading, Registry
from tailrace.runtime.log.compaction import LogCompaction
from tailrace.runtime.partition import Partition
from tailrace.storage.log import Log
from tailrace.storage.log_dir import LogDir

LOG = "kafka_log_log"
CLEANER = "kafka_log_logcleaner"
CLEANER_MANAGER = "kafka_log_logcleanermanager"
PARTITION_LABELS = ("topic", "partition")


class LogGauges:
    """Gauges of logs, read at each scrape."""

    def __init__(
        self,
        registry: Registry,
        partitions: Callable[[], Sequence[Partition]],
        log_dirs: Sequence[LogDir],
        compaction: LogCompaction,
    ) -> None:
        self._partitions = partitions
        self._log_dirs = log_dirs
        self._compaction = compaction
        gauge = registry.gauge
        for name, description, look in (
            ("size", "Size of a partition's segments in bytes.", lambda log: log.size_bytes),
            ("numlogsegments", "Number of a partition's segments.", lambda log: len(log.segments)),
            ("logstartoffset", "Log start offset of a partition.", lambda log: log.log_start_offset),
            ("logendoffset", "Log end offset of a partition.", lambda log: log.log_end_offset),
        ):
            gauge(f"{LOG}_{name}", description, self._reader(look), PARTITION_LABELS)
        gauge(
            f"{CLEANER}_max_clean_time_secs",
            "Duration of the longest of the last compactions, one for each thread.",
            lambda: [((), max(self._compaction.clean_times_s, default=0))],
        )
        gauge(
            f"{CLEANER}_max_compaction_delay_secs",
            "Time by which a compaction is later than max.compaction.lag.ms allows.",
            lambda: [((), self._compaction.overdue_ms / 1000)],
        )
        gauge(
            f"{CLEANER}_deadthreadcount",
            "1 if log compaction has crashed; the broker's log has the error.",
            lambda: [((), int(self._compaction.is_dead))],
        )
        for name, description, look in (
            ("count", "Partitions that cannot be compacted, by folder.", lambda _: 1),
            ("bytes", "Size in bytes of partitions that cannot be compacted, by folder.", lambda log: log.size_bytes),
        ):
            infix = "partitions_count" if name == "count" else "bytes"
            gauge(f"{CLEANER_MANAGER}_uncleanable_{infix}", description, self._uncleanable(look), ("logdirectory",))

    def _reader(self, look: Callable[[Log], int]) -> Callable[[], Reading]:
        def read() -> Reading:
            for partition in islice(self._partitions(), METRIC_LAG_SERIES_MAX):
                yield (partition.topic, str(partition.index)), look(partition.log)

        return read

    def _uncleanable(self, look: Callable[[Log], int]) -> Callable[[], Reading]:
        def read() -> Reading:
            tally = Tally({log_dir.path: 0 for log_dir in self._log_dirs})
            for storage in self._compaction.uncleanable:
                tally[storage.folder.path] += look(storage)
            return [((path,), count) for path, count in tally.items()]

        return read
