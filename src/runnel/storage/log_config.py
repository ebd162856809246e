"""The settings of one log, as plain values under Kafka's names."""

from dataclasses import dataclass

INT64_MAX = 2**63 - 1
DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic options that a log obeys, with Kafka's defaults. A live log may be given another one."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    cleanup_policy_delete: bool = True
    cleanup_policy_compact: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60 * 1000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    max_message_bytes: int = 1048588
    message_timestamp_type: str = "CreateTime"
    producer_id_expiration_ms: int = DAY_MS

    @property
    def roll_ms(self) -> int:
        """The age at which a segment is sealed: compaction cannot reach the last one."""
        if self.cleanup_policy_compact:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms
