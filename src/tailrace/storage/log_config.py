"""The configs of one log, as plain values under Kafka's names."""

from dataclasses import dataclass, fields

from tailrace.config.broker import BrokerConfig
from tailrace.config.topic import TopicConfig


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The topic configs that a log uses, with their defaults. The config of an open log may be replaced.

    A field has the name of its declaration in `TopicConfig`, which also gives it its default and its value.
    """

    segment_bytes: int = TopicConfig.segment_bytes.default
    segment_ms: int = TopicConfig.segment_ms.default
    segment_jitter_ms: int = TopicConfig.segment_jitter_ms.default
    segment_index_bytes: int = TopicConfig.segment_index_bytes.default
    index_interval_bytes: int = TopicConfig.index_interval_bytes.default
    retention_ms: int = TopicConfig.retention_ms.default
    retention_bytes: int = TopicConfig.retention_bytes.default
    cleanup_policy_delete: bool = "delete" in TopicConfig.cleanup_policy.default
    cleanup_policy_compact: bool = "compact" in TopicConfig.cleanup_policy.default
    min_cleanable_dirty_ratio: float = TopicConfig.min_cleanable_dirty_ratio.default
    min_compaction_lag_ms: int = TopicConfig.min_compaction_lag_ms.default
    max_compaction_lag_ms: int = TopicConfig.max_compaction_lag_ms.default
    delete_retention_ms: int = TopicConfig.delete_retention_ms.default
    file_delete_delay_ms: int = TopicConfig.file_delete_delay_ms.default
    flush_messages: int = TopicConfig.flush_messages.default
    flush_ms: int = TopicConfig.flush_ms.default
    max_message_bytes: int = TopicConfig.max_message_bytes.default
    message_timestamp_type: str = TopicConfig.message_timestamp_type.default
    producer_id_expiration_ms: int = BrokerConfig.producer_id_expiration_ms.default

    @classmethod
    def of_topic(cls, topic: TopicConfig) -> "LogConfig":
        """Return what the config of a topic, and of its broker, means for the topic's logs."""
        same = {field.name: getattr(topic, field.name) for field in fields(cls) if hasattr(TopicConfig, field.name)}
        same |= {
            "cleanup_policy_delete": "delete" in topic.cleanup_policy,
            "cleanup_policy_compact": "compact" in topic.cleanup_policy,
            "producer_id_expiration_ms": topic.broker.producer_id_expiration_ms,
        }
        if topic.internal_segment_bytes is not None:
            same["segment_bytes"] = topic.internal_segment_bytes
        return cls(**same)

    @property
    def roll_ms(self) -> int:
        """The age at which the active segment rolls; compaction cannot reach the active segment."""
        if self.cleanup_policy_compact:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms
