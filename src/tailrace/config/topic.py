"""The options of a topic, and their values from its overrides and the broker's defaults."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tailrace.base.record_part import RecordPart
from tailrace.base.request_limits import CONFIG_PROBLEMS_MAX
from tailrace.base.sentinel import INT64_MAX
from tailrace.config.broker import BrokerConfig
from tailrace.config.check import at_least, between
from tailrace.config.configuration import ConfigSource, parse_options, raise_problems, suggestion
from tailrace.config.declaration import boolean, double, integer, long, nullable_integer, string, string_list
from tailrace.config.error import ConfigError
from tailrace.config.option import BrokerSynonym, Option
from tailrace.config.override import OverridingConfig
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
from tailrace.config.refusal import topic_refusal
from tailrace.config.replication import THROTTLED_REPLICAS
from tailrace.config.schema import (
    RECORD_NAME_STRATEGIES,
    SUBJECT_NAME_STRATEGY,
    TOPIC_NAME_STRATEGY,
    check_registry_url,
)
from tailrace.config.unit import DAY_MS, GIB, HOUR_MS, KIB, MIB, MINUTE_MS


class TopicConfig(OverridingConfig):
    """The config of one topic; build it with `resolve`."""

    own_source = ConfigSource.DYNAMIC_TOPIC_CONFIG

    cleanup_policy = string_list(
        "cleanup.policy",
        ("delete",),
        "How old records are removed: delete removes segments by age and by size, compact keeps the newest record of "
        "each key. Both may be given; if it is empty, no record is removed.",
        check=CLEANUP_POLICY,
        broker_synonyms=(BrokerSynonym("log.cleanup.policy"),),
    )
    compression_type = string(
        "compression.type",
        "producer",
        "Compression of stored batches. With producer the leader stores each batch as the client compressed it; with "
        "any other value it compresses batches that use another codec again.",
        check=COMPRESSION,
        broker_synonyms=(BrokerSynonym("compression.type"),),
    )
    compression_gzip_level = integer(
        "compression.gzip.level",
        GZIP_LEVEL_DEFAULT,
        "Compression level if `compression.type` is gzip; -1 is the library's default.",
        check=GZIP_LEVEL,
        broker_synonyms=(BrokerSynonym("compression.gzip.level"),),
    )
    compression_lz4_level = integer(
        "compression.lz4.level",
        LZ4_LEVEL_DEFAULT,
        "Compression level if `compression.type` is lz4.",
        check=LZ4_LEVEL,
        broker_synonyms=(BrokerSynonym("compression.lz4.level"),),
    )
    compression_zstd_level = integer(
        "compression.zstd.level",
        ZSTD_LEVEL_DEFAULT,
        "Compression level if `compression.type` is zstd.",
        check=ZSTD_LEVEL,
        broker_synonyms=(BrokerSynonym("compression.zstd.level"),),
    )
    confluent_key_schema_validation = boolean(
        "confluent.key.schema.validation",
        False,
        "Whether the leader rejects batches with a key that does not begin with a schema id of the right subject. It "
        "needs `confluent.schema.registry.url`. A null key is accepted.",
        is_hidden=True,
    )
    confluent_key_subject_name_strategy = string(
        "confluent.key.subject.name.strategy",
        TOPIC_NAME_STRATEGY,
        f"Subject of the schema ids of keys. With TopicNameStrategy it is TOPIC-key. {RECORD_NAME_STRATEGIES}",
        check=SUBJECT_NAME_STRATEGY,
        is_hidden=True,
    )
    confluent_value_schema_validation = boolean(
        "confluent.value.schema.validation",
        False,
        "Whether the leader rejects batches with a value that does not begin with a schema id of the right subject. It "
        "needs `confluent.schema.registry.url`. A null value, which is a tombstone, is accepted.",
        is_hidden=True,
    )
    confluent_value_subject_name_strategy = string(
        "confluent.value.subject.name.strategy",
        TOPIC_NAME_STRATEGY,
        f"Subject of the schema ids of values. With TopicNameStrategy it is TOPIC-value. {RECORD_NAME_STRATEGIES}",
        check=SUBJECT_NAME_STRATEGY,
        is_hidden=True,
    )
    delete_retention_ms = long(
        "delete.retention.ms",
        DAY_MS,
        "Time for which compaction keeps a tombstone, which is a record without a value that deletes its key.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.cleaner.delete.retention.ms"),),
    )
    file_delete_delay_ms = long(
        "file.delete.delay.ms",
        MINUTE_MS,
        "Delay before the files of a deleted segment are removed; until then they have the suffix `.deleted`.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.segment.delete.delay.ms"),),
    )
    flush_messages = long(
        "flush.messages",
        INT64_MAX,
        "Number of new records after which the log is flushed to disk; by default the operating system decides.",
        check=at_least(1),
        broker_synonyms=(BrokerSynonym("log.flush.interval.messages"),),
    )
    flush_ms = long(
        "flush.ms",
        INT64_MAX,
        "Time after which a new record is flushed to disk; by default the operating system decides.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.flush.interval.ms"), BrokerSynonym("log.flush.scheduler.interval.ms")),
    )
    index_interval_bytes = integer(
        "index.interval.bytes",
        4 * KIB,
        "Number of bytes of the log between two entries of the offset index.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.index.interval.bytes"),),
    )
    internal_segment_bytes = nullable_integer(
        "internal.segment.bytes",
        "Segment size for tests, which may be smaller than `segment.bytes` allows and is used instead of it.",
        is_hidden=True,
    )
    follower_replication_throttled_replicas = string_list(
        "follower.replication.throttled.replicas",
        (),
        "Followers whose fetches `follower.replication.throttled.rate` limits, as PARTITION:BROKER, or * for all.",
        check=THROTTLED_REPLICAS,
    )
    leader_replication_throttled_replicas = string_list(
        "leader.replication.throttled.replicas",
        (),
        "Followers for which `leader.replication.throttled.rate` limits the leader, as PARTITION:BROKER, or * for all.",
        check=THROTTLED_REPLICAS,
    )
    max_compaction_lag_ms = long(
        "max.compaction.lag.ms",
        INT64_MAX,
        "Time after which a record must be compacted, even if `min.cleanable.dirty.ratio` is not reached.",
        check=at_least(1),
        broker_synonyms=(BrokerSynonym("log.cleaner.max.compaction.lag.ms"),),
    )
    max_message_bytes = integer(
        "max.message.bytes",
        MIB + 12,
        "Largest record batch that the topic accepts, after compression.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("message.max.bytes"),),
    )
    message_timestamp_after_max_ms = long(
        "message.timestamp.after.max.ms",
        HOUR_MS,
        "Largest difference by which a record's timestamp may be ahead of the broker's clock.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.message.timestamp.after.max.ms"),),
    )
    message_timestamp_before_max_ms = long(
        "message.timestamp.before.max.ms",
        INT64_MAX,
        "Largest difference by which a record's timestamp may be behind the broker's clock.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.message.timestamp.before.max.ms"),),
    )
    message_timestamp_type = string(
        "message.timestamp.type",
        "CreateTime",
        "Clock of a record's timestamp: the producer's (CreateTime) or the broker's (LogAppendTime).",
        check=TIMESTAMP_TYPE,
        broker_synonyms=(BrokerSynonym("log.message.timestamp.type"),),
    )
    min_cleanable_dirty_ratio = double(
        "min.cleanable.dirty.ratio",
        0.5,
        "Smallest part of a log that must be new since the last compaction before the next one starts.",
        check=between(0, 1),
        broker_synonyms=(BrokerSynonym("log.cleaner.min.cleanable.ratio"),),
    )
    min_compaction_lag_ms = long(
        "min.compaction.lag.ms",
        0,
        "Time for which compaction does not remove a record.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.cleaner.min.compaction.lag.ms"),),
    )
    min_insync_replicas = integer(
        "min.insync.replicas",
        1,
        "Number of replicas that must be in sync for a write with acks=all.",
        check=at_least(1),
        broker_synonyms=(BrokerSynonym("min.insync.replicas"),),
    )
    retention_bytes = long(
        "retention.bytes",
        -1,
        "Size of a partition above which its oldest segments are deleted; -1 means no limit.",
        broker_synonyms=(BrokerSynonym("log.retention.bytes"),),
    )
    retention_ms = long(
        "retention.ms",
        7 * DAY_MS,
        "Time for which records are kept before their segment is deleted; -1 means no limit.",
        check=at_least(-1),
        broker_synonyms=(
            BrokerSynonym("log.retention.ms"),
            BrokerSynonym("log.retention.minutes", MINUTE_MS),
            BrokerSynonym("log.retention.hours", HOUR_MS),
        ),
    )
    segment_bytes = integer(
        "segment.bytes",
        GIB,
        "Largest size of a segment; the log then rolls to a new one.",
        check=at_least(MIB),
        broker_synonyms=(BrokerSynonym("log.segment.bytes"),),
    )
    segment_index_bytes = integer(
        "segment.index.bytes",
        10 * MIB,
        "Largest size of an index file; the log rolls to a new segment if an index is full.",
        check=at_least(4),
        broker_synonyms=(BrokerSynonym("log.index.size.max.bytes"),),
    )
    segment_jitter_ms = long(
        "segment.jitter.ms",
        0,
        "Largest random time subtracted from `segment.ms`, so that segments do not all roll at once.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.roll.jitter.ms"), BrokerSynonym("log.roll.jitter.hours", HOUR_MS)),
    )
    segment_ms = long(
        "segment.ms",
        7 * DAY_MS,
        "Age at which the log rolls to a new segment even if the segment is not full.",
        check=at_least(1),
        broker_synonyms=(BrokerSynonym("log.roll.ms"), BrokerSynonym("log.roll.hours", HOUR_MS)),
    )
    tailrace_mirror_claim = string(
        "tailrace.mirror.claim",
        "",
        "Set by a mirror that keeps offsets (docs/MIRROR.md): the leader then accepts only the batches of the mirror "
        "with this claim, at the offsets that they have in the other cluster. Without it the topic is an ordinary one.",
        is_hidden=True,
    )
    unclean_leader_election_enable = boolean(
        "unclean.leader.election.enable",
        False,
        "Whether a replica that lacks committed records may be elected if no other replica is alive.",
        broker_synonyms=(BrokerSynonym("unclean.leader.election.enable"),),
    )

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> "TopicConfig":
        """Return a topic's configuration: its own overrides, then the broker's values, or raise `ConfigError`."""
        return cls._build(_parse_overrides(overrides), overrides, broker)

    @cached_property
    def schema_parts(self) -> tuple[RecordPart, ...]:
        """The parts of records whose schema ids are checked; usually none."""
        key: tuple[RecordPart, ...] = ("key",) if self.confluent_key_schema_validation else ()
        value: tuple[RecordPart, ...] = ("value",) if self.confluent_value_schema_validation else ()
        return key + value

    def schema_subject(self, topic: str, part: RecordPart) -> str | None:
        """Return the subject that the schema ids of keys or values must belong to; None for any."""
        is_key = part == "key"
        strategy = self.confluent_key_subject_name_strategy if is_key else self.confluent_value_subject_name_strategy
        return f"{topic}-{part}" if strategy == TOPIC_NAME_STRATEGY else None


def validate_topic_overrides(overrides: Mapping[str, str | None], broker: BrokerConfig) -> None:
    """Raise `ConfigError` for a name or value that is not valid for a topic of this broker."""
    check_registry_url(_parse_overrides(overrides), broker.confluent_schema_registry_url)


def topic_option(name: str) -> Option[Any]:
    """Return the topic option of that name, or raise `ConfigError` with the reason why there is none."""
    option = TopicConfig.options.get(name)
    if option is not None:
        return option
    known = suggestion(name, TopicConfig.options)
    raise ConfigError(name, topic_refusal(name) or f"Unknown topic config name: {name}{known}")


def _parse_overrides(overrides: Mapping[str, str | None]) -> dict[str, Any]:
    problems: list[ConfigError] = []
    texts: dict[str, str] = {}
    for name, text in overrides.items():
        if len(problems) == CONFIG_PROBLEMS_MAX:
            break
        try:
            topic_option(name)
        except ConfigError as error:
            problems.append(error)
            continue
        if text is None:
            problems.append(ConfigError(name, f"Null value not supported for topic config {name}"))
        else:
            texts[name] = text
    raise_problems(problems)
    parsed = parse_options(TopicConfig.options, texts)
    _check_compaction_lags(parsed)
    return parsed


def _check_compaction_lags(parsed: Mapping[str, Any]) -> None:
    lags = (TopicConfig.min_compaction_lag_ms, TopicConfig.max_compaction_lag_ms)
    minimum, maximum = (parsed.get(option.name, option.default) for option in lags)
    if minimum > maximum:
        message = f"min.compaction.lag.ms ({minimum}) must not be greater than max.compaction.lag.ms ({maximum})"
        raise ConfigError("min.compaction.lag.ms", message)
