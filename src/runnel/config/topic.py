"""The options of a topic, and how a topic's values follow from its overrides and the broker's defaults."""

from collections.abc import Mapping
from typing import Any

from runnel.config.broker import BrokerConfig
from runnel.config.check import at_least, between
from runnel.config.configuration import ConfigSource, parse_options, raise_problems, suggestion
from runnel.config.declaration import boolean, double, integer, long, string, string_list
from runnel.config.error import ConfigError
from runnel.config.option import INT64_MAX, BrokerSynonym, Option
from runnel.config.override import OverridingConfig
from runnel.config.policy import CLEANUP_POLICY, COMPRESSION, TIMESTAMP_TYPE
from runnel.config.refusal import topic_refusal
from runnel.config.replication import THROTTLED_REPLICAS
from runnel.config.unit import DAY_MS, GIB, HOUR_MS, KIB, MIB, MINUTE_MS


class TopicConfig(OverridingConfig):
    """The options that one topic lives by; build it with `resolve`."""

    own_source = ConfigSource.DYNAMIC_TOPIC_CONFIG

    cleanup_policy = string_list(
        "cleanup.policy",
        ("delete",),
        "What happens to old records: delete removes segments by age and by size, compact keeps the newest record of "
        "each key; both may be given.",
        check=CLEANUP_POLICY,
        broker_synonyms=(BrokerSynonym("log.cleanup.policy"),),
    )
    compression_type = string(
        "compression.type",
        "producer",
        "The compression of stored batches: producer keeps each batch as it came.",
        check=COMPRESSION,
        broker_synonyms=(BrokerSynonym("compression.type"),),
    )
    delete_retention_ms = long(
        "delete.retention.ms",
        DAY_MS,
        "How long a record without a value, which deletes its key, is kept after it was first compacted.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.cleaner.delete.retention.ms"),),
    )
    file_delete_delay_ms = long(
        "file.delete.delay.ms",
        MINUTE_MS,
        "How long the files of a segment that retention or compaction took out of the log stay, as `.deleted`.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.segment.delete.delay.ms"),),
    )
    flush_messages = long(
        "flush.messages",
        INT64_MAX,
        "After how many new records the log is forced to disk; by default the operating system decides.",
        check=at_least(1),
        broker_synonyms=(BrokerSynonym("log.flush.interval.messages"),),
    )
    flush_ms = long(
        "flush.ms",
        INT64_MAX,
        "How long a record may wait before the log is forced to disk; by default the operating system decides.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.flush.interval.ms"), BrokerSynonym("log.flush.scheduler.interval.ms")),
    )
    index_interval_bytes = integer(
        "index.interval.bytes",
        4 * KIB,
        "How many bytes of log lie between two entries of the offset index.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.index.interval.bytes"),),
    )
    follower_replication_throttled_replicas = string_list(
        "follower.replication.throttled.replicas",
        (),
        "Which followers fetch at follower.replication.throttled.rate, as PARTITION:BROKER, or * for all.",
        check=THROTTLED_REPLICAS,
    )
    leader_replication_throttled_replicas = string_list(
        "leader.replication.throttled.replicas",
        (),
        "Which leaders send at leader.replication.throttled.rate, as PARTITION:BROKER, or * for all.",
        check=THROTTLED_REPLICAS,
    )
    max_compaction_lag_ms = long(
        "max.compaction.lag.ms",
        INT64_MAX,
        "After which time a record has to be compacted, however little of the log is dirty.",
        check=at_least(1),
        broker_synonyms=(BrokerSynonym("log.cleaner.max.compaction.lag.ms"),),
    )
    max_message_bytes = integer(
        "max.message.bytes",
        MIB + 12,
        "The largest record batch that the topic takes, after compression.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("message.max.bytes"),),
    )
    message_timestamp_after_max_ms = long(
        "message.timestamp.after.max.ms",
        HOUR_MS,
        "How far in the future a record's CreateTime may lie.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.message.timestamp.after.max.ms"),),
    )
    message_timestamp_before_max_ms = long(
        "message.timestamp.before.max.ms",
        INT64_MAX,
        "How far in the past a record's CreateTime may lie.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.message.timestamp.before.max.ms"),),
    )
    message_timestamp_type = string(
        "message.timestamp.type",
        "CreateTime",
        "Whose clock stamps a record: the producer's (CreateTime) or the broker's (LogAppendTime).",
        check=TIMESTAMP_TYPE,
        broker_synonyms=(BrokerSynonym("log.message.timestamp.type"),),
    )
    min_cleanable_dirty_ratio = double(
        "min.cleanable.dirty.ratio",
        0.5,
        "Which part of a log must be new since the last compaction before the next one.",
        check=between(0, 1),
        broker_synonyms=(BrokerSynonym("log.cleaner.min.cleanable.ratio"),),
    )
    min_compaction_lag_ms = long(
        "min.compaction.lag.ms",
        0,
        "For how long a record is left alone by compaction.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.cleaner.min.compaction.lag.ms"),),
    )
    min_insync_replicas = integer(
        "min.insync.replicas",
        1,
        "How many in-sync replicas a write with acks=all needs.",
        check=at_least(1),
        broker_synonyms=(BrokerSynonym("min.insync.replicas"),),
    )
    retention_bytes = long(
        "retention.bytes",
        -1,
        "How large a partition may grow before its oldest segments are deleted; -1 means without limit.",
        broker_synonyms=(BrokerSynonym("log.retention.bytes"),),
    )
    retention_ms = long(
        "retention.ms",
        7 * DAY_MS,
        "How long records are kept before their segment is deleted; -1 means for ever.",
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
        "The size at which a segment file is closed and the next one begun.",
        check=at_least(MIB),
        broker_synonyms=(BrokerSynonym("log.segment.bytes"),),
    )
    segment_index_bytes = integer(
        "segment.index.bytes",
        10 * MIB,
        "The largest size of an index file; a segment whose index is full is closed.",
        check=at_least(4),
        broker_synonyms=(BrokerSynonym("log.index.size.max.bytes"),),
    )
    segment_jitter_ms = long(
        "segment.jitter.ms",
        0,
        "The most that is randomly taken off segment.ms, so that segments do not all close at once.",
        check=at_least(0),
        broker_synonyms=(BrokerSynonym("log.roll.jitter.ms"), BrokerSynonym("log.roll.jitter.hours", HOUR_MS)),
    )
    segment_ms = long(
        "segment.ms",
        7 * DAY_MS,
        "The age at which a segment is closed even if it is not full, so that retention can reach it.",
        check=at_least(1),
        broker_synonyms=(BrokerSynonym("log.roll.ms"), BrokerSynonym("log.roll.hours", HOUR_MS)),
    )
    unclean_leader_election_enable = boolean(
        "unclean.leader.election.enable",
        False,
        "Whether a replica that lacks records may lead when no other can.",
        broker_synonyms=(BrokerSynonym("unclean.leader.election.enable"),),
    )

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> "TopicConfig":
        """Return a topic's configuration: its own overrides, then the broker's values, or raise `ConfigError`."""
        return cls._build(_parse_overrides(overrides), overrides, broker)


def validate_topic_overrides(overrides: Mapping[str, str | None]) -> None:
    """Raise `ConfigError` for a name or a value that a topic cannot have."""
    _parse_overrides(overrides)


def topic_option(name: str) -> Option[Any]:
    """Return the topic option of that name, or raise `ConfigError` saying why there is none."""
    option = TopicConfig.options.get(name)
    if option is not None:
        return option
    known = suggestion(name, TopicConfig.options)
    raise ConfigError(name, topic_refusal(name) or f"Unknown topic config name: {name}{known}")


def _parse_overrides(overrides: Mapping[str, str | None]) -> dict[str, Any]:
    problems: list[ConfigError] = []
    texts: dict[str, str] = {}
    for name, text in overrides.items():
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
