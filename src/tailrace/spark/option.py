"""The options of a query, all checked before the first request to a broker.

They are the options of Spark's Kafka connector, with three more: `columns`, `pushdown` and `delivery`. Spark passes
names in lower case. An unknown option is an error, because a misspelled one would silently change the query.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from tailrace.base.sentinel import INT32_MAX, INT64_MAX
from tailrace.spark.bound import AtOffsets, AtTime, AtTimes, Bound, Edge, NoMatch
from tailrace.spark.client_setting import (
    BOOTSTRAP_SERVERS,
    PREFIX,
    ClientSettings,
    log_without_effect,
    parse_client_settings,
)
from tailrace.spark.column import DEFAULT_COLUMNS, HEADERS, parse_columns
from tailrace.spark.connector.durable import local_checkpoint
from tailrace.spark.error import OptionError
from tailrace.spark.position import TIMES_EXAMPLE, Offsets, parse_offsets
from tailrace.spark.subscription import STRATEGIES, Subscription, parse_subscription
from tailrace.spark.value import parse_bool, parse_choice, parse_duration_ms, parse_int

log = logging.getLogger(__name__)

_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_SOURCE = (
    *STRATEGIES,
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
    *_ENDS,
    *STREAM_ONLY,
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "columns",
    "pushdown",
)
_SINK = ("topic", "includeHeaders", "delivery")
_OURS = ("columns", "pushdown", "delivery")
_WITHOUT_EFFECT = ("groupIdPrefix", "useDeprecatedOffsetFetching")
"""Options of Spark's connector for the consumer group and the offset lookup of its own, which do not exist here."""
_CONFIG_PREFIX = "spark."
"""Configs of the session, such as spark.kafka.consumer.cache.capacity; Spark's connector ignores them as options."""
_OF_SPARK = (
    "checkpointLocation",
    "queryName",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
)
"""Options of Spark itself, which it passes to a sink."""


class Delivery(StrEnum):
    """The delivery guarantee of a stream's rows after a crash."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempts to look up offsets, and the wait between them."""

    attempt_count: int = 3
    interval_ms: int = 10


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """The size limits of a micro-batch, in offsets."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_max_ms: int = 15 * 60_000


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """The division of topic partitions into Spark tasks; by default one task for each."""

    partitions_min: int | None = None
    records_max: int | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a source."""

    client: ClientSettings
    subscription: Subscription
    columns: tuple[str, ...]
    start: Bound | None = None
    start_option: str = "startingOffsets"
    end: Bound = Edge.LATEST
    end_option: str = "endingOffsets"
    no_match: NoMatch = NoMatch.ERROR
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 120_000
    retry: Retry = field(default_factory=Retry)
    metadata_ttl_ms: int = -1
    admission: AdmissionOptions = field(default_factory=AdmissionOptions)
    split: SplitOptions = field(default_factory=SplitOptions)
    pushdown: bool | None = None
    ends_given: tuple[str, ...] = ()
    stream_only_given: tuple[str, ...] = ()

    def for_batch(self) -> "SourceOptions":
        """Return the options of a batch query, which starts at earliest by default."""
        if self.start is Edge.LATEST or _has_edge(self.start, Edge.LATEST):
            raise OptionError(
                self.start_option, "a batch query cannot start at latest, because it would read no records"
            )
        if self.end is Edge.EARLIEST or _has_edge(self.end, Edge.EARLIEST):
            raise OptionError(self.end_option, "a query cannot end at earliest")
        for name in self.stream_only_given:
            log.warning("option %s has no effect in a batch query", name)
        return replace(self, start=Edge.EARLIEST if self.start is None else self.start)

    def for_stream(self) -> "SourceOptions":
        """Return the options of a stream, which starts at latest by default."""
        if self.ends_given:
            raise OptionError(self.ends_given[0], "a stream has no end; use a batch query, or trigger availableNow")
        return replace(self, start=Edge.LATEST if self.start is None else self.start)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a sink; without a topic, each row names its topic."""

    client: ClientSettings
    topic: str | None = None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    checkpoint: Path | None = None
    """The checkpoint of the stream, if it is in a folder of this machine."""


def parse_source_options(options: Mapping[str, str]) -> SourceOptions:
    """Parse the options of a source; raises `OptionError`."""
    given = _check_names(options, _SOURCE, "source")
    start_option, start = _parse_bound(given, "starting", None)
    end_option, end = _parse_bound(given, "ending", Edge.LATEST)
    return SourceOptions(
        client=parse_client_settings(client_options(options)),
        subscription=_parse_strategy(given),
        columns=_parse_columns(given),
        start=start,
        start_option=start_option,
        end=Edge.LATEST if end is None else end,
        end_option=end_option,
        no_match=parse_choice(
            "startingOffsetsByTimestampStrategy",
            given.get("startingOffsetsByTimestampStrategy", "error"),
            {choice.value: choice for choice in NoMatch},
        ),
        fail_on_data_loss=_bool(given, "failOnDataLoss", default=True),
        poll_timeout_ms=_int(given, "kafkaConsumer.pollTimeoutMs", 120_000, least=1),
        retry=Retry(
            _int(given, "fetchOffset.numRetries", 3, least=1), _int(given, "fetchOffset.retryIntervalMs", 10, least=0)
        ),
        metadata_ttl_ms=_parse_ttl(given),
        admission=_parse_admission(given),
        split=SplitOptions(
            _optional_int(given, "minPartitions", most=INT32_MAX), _optional_int(given, "maxRecordsPerPartition")
        ),
        pushdown=_bool(given, "pushdown", default=True) if "pushdown" in given else None,
        ends_given=tuple(name for name in _ENDS if name in given),
        stream_only_given=tuple(name for name in STREAM_ONLY if name in given),
    )


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a sink; raises `OptionError`."""
    given = _check_names(options, _SINK, "sink")
    _bool(given, "includeHeaders", default=False)  # headers are written if there is a column headers
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise OptionError("topic", "it is empty")
    delivery = parse_choice(
        "delivery", given.get("delivery", Delivery.AT_LEAST_ONCE.value), {choice.value: choice for choice in Delivery}
    )
    client = parse_client_settings(client_options(options))
    if delivery is Delivery.EXACTLY_ONCE:
        client.check_transactional()
    location = {name.lower(): text for name, text in options.items()}.get("checkpointlocation")
    checkpoint = None if location is None else local_checkpoint(location)
    return SinkOptions(client, None if topic is None else topic.strip(), delivery, checkpoint)


# --- names


def client_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the Kafka client, with their names in lower case."""
    lowered = {name.lower(): text for name, text in options.items()}
    return {name: text for name, text in lowered.items() if name.startswith(PREFIX)}


def _check_names(options: Mapping[str, str], known: tuple[str, ...], side: str) -> dict[str, str]:
    """Return the options by their documented names, without the client's; raises `OptionError` for an unknown one.

    One set of options often serves the source and the sink of a program, so options of the other side are accepted.
    """
    spelling = {name.lower(): name for name in known}
    ignored = {name.lower(): name for name in (*_SOURCE, *_SINK, *_WITHOUT_EFFECT, *_OF_SPARK) if name not in _OURS}
    given = {}
    for option, text in options.items():
        name = option.lower()
        if name in spelling:
            given[spelling[name]] = text
        elif name in ignored or name.startswith(_CONFIG_PREFIX):
            if side == "source" or ignored.get(name) not in _OF_SPARK:
                log_without_effect(ignored.get(name, option))
        elif not name.startswith(PREFIX):
            raise OptionError(option, _why_not(name, side, known))
    return given


def _why_not(name: str, side: str, known: tuple[str, ...]) -> str:
    if name == "path":
        return f"topics have no path; use option {'subscribe' if side == 'source' else 'topic'}"
    if name == "bootstrap.servers":
        return f"the name is {BOOTSTRAP_SERVERS}"
    if name in _OURS:
        return f"it belongs to a {'sink' if side == 'source' else 'source'}, and this is a {side}"
    return f"it is unknown; a {side} takes {', '.join(known)} and kafka.*"


# --- values


def _parse_strategy(given: Mapping[str, str]) -> Subscription:
    chosen = [name for name in STRATEGIES if name in given]
    if not chosen:
        raise OptionError("subscribe", "it is missing; set one of assign, subscribe and subscribePattern")
    if len(chosen) > 1:
        raise OptionError(
            chosen[1], f"only one of assign, subscribe and subscribePattern can be set, and {chosen[0]} is set"
        )
    return parse_subscription(chosen[0], given[chosen[0]])


def _parse_bound(given: Mapping[str, str], side: str, default: Bound | None) -> tuple[str, Bound | None]:
    """Return a bound and its option: one time takes precedence over times, and times over offsets."""
    time, times, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if time in given:
        return time, AtTime(parse_int(time, given[time]))
    if times in given:
        return times, AtTimes(_check_least(times, parse_offsets(times, given[times], TIMES_EXAMPLE), 0))
    if offsets not in given:
        return offsets, default
    edge = {"latest": Edge.LATEST, "earliest": Edge.EARLIEST}.get(given[offsets].strip().lower())
    if edge is not None:
        return offsets, edge
    return offsets, AtOffsets(_check_least(offsets, parse_offsets(offsets, given[offsets]), Edge.EARLIEST))


def _check_least(option: str, values: Offsets, least: int) -> Offsets:
    for partition, value in values.items():
        if not least <= value <= INT64_MAX:
            raise OptionError(option, f"{partition} cannot be at {value}")
    return values


def _has_edge(bound: Bound | None, edge: Edge) -> bool:
    return isinstance(bound, AtOffsets) and edge in bound.offsets.values()


def _parse_columns(given: Mapping[str, str]) -> tuple[str, ...]:
    with_headers = _bool(given, "includeHeaders", default=False)
    if "columns" in given:
        return parse_columns("columns", given["columns"])
    return (*DEFAULT_COLUMNS, HEADERS) if with_headers else DEFAULT_COLUMNS


def _parse_admission(given: Mapping[str, str]) -> AdmissionOptions:
    most, least = _optional_int(given, "maxOffsetsPerTrigger"), _optional_int(given, "minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise OptionError("minOffsetsPerTrigger", f"{least} is more than maxOffsetsPerTrigger, which is {most}")
    delay_ms = parse_duration_ms("maxTriggerDelay", given.get("maxTriggerDelay", "15m"))
    return AdmissionOptions(most, least, delay_ms)


def _parse_ttl(given: Mapping[str, str]) -> int:
    name = "partition.metadata.cache.ttl.ms"
    ttl_ms = _int(given, name, -1, least=-1)
    if ttl_ms == 0:
        raise OptionError(name, "it must be positive, or -1 to look up partitions each time")
    return ttl_ms


def _bool(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    return parse_bool(name, given[name]) if name in given else default


def _int(given: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    return parse_int(name, given[name], least=least) if name in given else default


def _optional_int(given: Mapping[str, str], name: str, most: int = INT64_MAX) -> int | None:
    return parse_int(name, given[name], least=1, most=most) if name in given else None
