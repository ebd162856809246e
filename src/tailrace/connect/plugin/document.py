"""What the flows of all plugins have in common: names, errors, topics to create, and client configs."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tailrace.connect.plugin import connector_setting
from tailrace.connect.plugin.base import Definition, Kind, NewTopic, Translation, Type
from tailrace.connect.plugin.check import number_of_topic
from tailrace.connect.plugin.setting import InvalidValue, Settings, parse_value
from tailrace.spark.client_setting import BOOTSTRAP_SERVERS, PREFIX, parse_client_settings
from tailrace.spark.connector.known import CONNECTORS
from tailrace.spark.error import OptionError, PipelineError
from tailrace.spark.pipeline.flow import flow

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_NAME_LENGTH_MAX = 200
_START = "auto.offset.reset"
_DEFAULT = "default"
_DEAD_LETTERS = (connector_setting.DEAD_LETTER_TOPIC, connector_setting.DEAD_LETTER_REPLICATION)


def flow_name(connector: str, part: str = "") -> str:
    """Return the name of a flow: that of its connector, and what tells its flows apart."""
    name = _NOT_IN_A_NAME.sub("_", f"{connector}.{part}" if part else connector)
    return (name if name[:1].isalnum() else f"c{name}")[:_NAME_LENGTH_MAX]


def quote(column: str) -> str:
    """Return the name of a column for SQL."""
    return "`" + column.replace("`", "``") + "`"


def sql_text(text: str) -> str:
    """Return a text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def select(*expressions: str, where: str | None = None) -> str:
    """Return a query over the source of a flow."""
    parts = ["SELECT", ", ".join(expressions), "FROM source"]
    return " ".join(parts if where is None else [*parts, "WHERE", where])


def read_errors(settings: Settings) -> dict[str, Any]:
    """Return the key `errors` of the flows; adds problems for what cannot be had."""
    has_dead_letters = connector_setting.DEAD_LETTER_TOPIC in settings.definitions
    topic = settings.text(connector_setting.DEAD_LETTER_TOPIC) if has_dead_letters else ""
    if settings.text(connector_setting.TOLERANCE) != "all":
        if topic:
            settings.refuse(connector_setting.DEAD_LETTER_TOPIC, "dead letters need errors.tolerance=all")
        return {}
    for name in (connector_setting.ERRORS_LOG, connector_setting.ERRORS_LOG_MESSAGES):
        if settings.flag(name):
            settings.refuse(
                name,
                "with errors.tolerance=all errors are counted, and not logged one by one; remove it, and name a topic "
                f"for dead letters in {connector_setting.DEAD_LETTER_TOPIC}",
            )
    return {"errors": {"to": topic} if topic else "skip"}


def read_every(settings: Settings) -> dict[str, Any]:
    """Return the key `every` of the flows of a source: the interval between transactions."""
    if settings.text(connector_setting.BOUNDARY).lower() != "interval":
        if settings.is_given(connector_setting.BOUNDARY_INTERVAL):
            settings.refuse(connector_setting.BOUNDARY_INTERVAL, "it needs transaction.boundary=interval")
        return {}
    interval_ms = settings.number(connector_setting.BOUNDARY_INTERVAL)
    if not interval_ms:
        settings.refuse(connector_setting.BOUNDARY_INTERVAL, "transaction.boundary=interval needs a positive interval")
        return {}
    return {"every": f"{interval_ms} milliseconds"}


def producer_options(settings: Settings) -> dict[str, str]:
    """Return the options of the topic that is written."""
    return _client_options(
        settings, connector_setting.PRODUCER_OVERRIDE, settings.below(connector_setting.PRODUCER_OVERRIDE)
    )


def consumer_arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments of the topics that are read: where they start, and options."""
    given = settings.below(connector_setting.CONSUMER_OVERRIDE)
    arguments: dict[str, Any] = {}
    if (start := given.pop(_START, None)) is not None:
        if start.strip() in ("earliest", "latest"):
            arguments["start"] = start.strip()
        else:
            settings.refuse(connector_setting.CONSUMER_OVERRIDE + _START, "it is earliest or latest")
    options = _client_options(settings, connector_setting.CONSUMER_OVERRIDE, given)
    return arguments | ({"options": options} if options else {})


def _client_options(settings: Settings, prefix: str, given: dict[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, text in given.items():
        option = {PREFIX + name: text}
        try:
            parse_client_settings({BOOTSTRAP_SERVERS: "localhost:9092", **option})
        except OptionError as error:
            settings.refuse(prefix + name, error.reason)
        else:
            options |= option
    return options


def finish(
    settings: Settings,
    kind: Kind,
    documents: Sequence[dict[str, Any]],
    topics: Sequence[str],
    spark: dict[str, str] | None = None,
) -> Translation:
    """Return the translation to these flows, which read or write these topics."""
    new_topics = _read_new_topics(settings, topics) if kind is Kind.SOURCE else []
    if all(name in settings.definitions and settings.is_given(name) for name in _DEAD_LETTERS):
        topic, replication_factor = (settings.value(name) for name in _DEAD_LETTERS)
        new_topics.append(NewTopic(topic, 1, replication_factor or -1))
    is_sink = kind is Kind.SINK
    return Translation(
        tuple(documents),
        topics_read=tuple(topics) if is_sink else (),
        topics_written=() if is_sink else tuple(topics),
        new_topics=tuple(new_topics),
        spark=spark or {},
    )


def read_topics(settings: Settings) -> list[str]:
    """Return the topics of a sink; adds the problems that Kafka Connect reports."""
    topics, pattern = settings.items(connector_setting.TOPICS), settings.text(connector_setting.TOPICS_REGEX)
    if bool(topics) == bool(pattern):
        message = (
            "topics and topics.regex are mutually exclusive options, but both are set."
            if topics
            else "Must configure one of topics or topics.regex"
        )
        settings.refuse(connector_setting.TOPICS, message)
        settings.refuse(connector_setting.TOPICS_REGEX, message)
    dead_letters = settings.text(connector_setting.DEAD_LETTER_TOPIC)
    if dead_letters and dead_letters in topics:
        settings.refuse(
            connector_setting.TOPICS,
            f"The DLQ topic '{dead_letters}' may not be included in the list of topics "
            f"('topics=[{', '.join(topics)}]') consumed by the connector",
        )
    return topics


def check_endpoint(arguments: Mapping[str, Any], *, is_source: bool) -> str | None:
    """Return what is wrong with a source or a sink, as far as that is known without reaching anything."""
    try:
        endpoint = _make_endpoint(arguments)
        check = getattr(endpoint, "check_source" if is_source else "check_sink", None)
        if check is None:
            return f"{arguments['connector']} cannot be a {'source' if is_source else 'sink'}"
        check()
    except (PipelineError, TypeError) as error:
        return str(error)
    return None


def check_document(document: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a flow, as far as that is known without reaching anything."""

    def function(rows: Any) -> Any:
        return rows

    function.__name__ = document["name"]
    options = {name: value for name, value in document.items() if name not in ("name", "source", "sink", "sql")}
    try:
        source, sink = _make_endpoint(document["source"]), _make_endpoint(document["sink"])
        flow(source=source, sink=sink, **options)(function)
    except (PipelineError, TypeError) as error:
        return str(error)
    return None


def _make_endpoint(arguments: Mapping[str, Any]) -> Any:
    given = dict(arguments)
    connector = given.pop("connector")
    names = given.pop("name", ()) if connector == "topic" else ()
    return CONNECTORS[connector](*([names] if isinstance(names, str) else names), **given)


# --- topics that a source creates


def _read_new_topics(settings: Settings, topics: Sequence[str]) -> list[NewTopic]:
    """Return the topics with the settings topic.creation.*; without these, the flows create them."""
    given = settings.below(connector_setting.TOPIC_CREATION)
    given.pop("groups", None)
    groups = settings.items(connector_setting.TOPIC_CREATION_GROUPS)
    if not given and not groups:
        return []
    default = _read_group(settings, _DEFAULT, given, None)
    found = [_read_group(settings, group, given, default) for group in groups if group != _DEFAULT]
    known = {_DEFAULT, *groups}
    for name in given:
        if name.partition(".")[0] not in known:
            settings.refuse(connector_setting.TOPIC_CREATION + name, "its group is not in topic.creation.groups")
    return [next((g for g in found if g.has(topic)), default).new_topic(topic) for topic in topics]


class _Group:
    """A group of topics to create."""

    def __init__(self, partitions: int, replication: int, include: list[str], exclude: list[str]) -> None:
        self.partitions = partitions
        self.replication = replication
        self.include = include
        self.exclude = exclude
        self.configs: dict[str, str] = {}

    def has(self, topic: str) -> bool:
        """Return whether the patterns of the group include a topic."""
        matches = [any(re.fullmatch(pattern, topic) for pattern in each) for each in (self.include, self.exclude)]
        return matches == [True, False]

    def new_topic(self, topic: str) -> NewTopic:
        return NewTopic(topic, self.partitions, self.replication, self.configs)


def _read_group(settings: Settings, group: str, given: dict[str, str], default: _Group | None) -> _Group:
    mine = {name.removeprefix(f"{group}."): text for name, text in given.items() if name.startswith(f"{group}.")}
    prefix = f"{connector_setting.TOPIC_CREATION}{group}."
    numbers = []
    for name, inherited, what in (
        ("partitions", None if default is None else default.partitions, "Number of partitions must be positive"),
        ("replication.factor", None if default is None else default.replication, "Replication factor must be positive"),
    ):
        text = mine.pop(name, None)
        if text is None and inherited is None:
            settings.refuse(prefix + name, "the group default needs it; -1 leaves it to the brokers")
        numbers.append(_read_number(settings, prefix + name, text, inherited, what))
    patterns = [_read_patterns(settings, prefix + name, mine.pop(name, "")) for name in ("include", "exclude")]
    found = _Group(numbers[0], numbers[1], *patterns)
    found.configs |= mine
    return found


def _read_number(settings: Settings, name: str, text: str | None, inherited: int | None, what: str) -> int:
    if text is None:
        return -1 if inherited is None else inherited
    try:
        value = int(parse_value(Definition(name, Type.INT), text))
    except InvalidValue as error:
        settings.refuse(name, str(error))
        return -1
    if (reason := number_of_topic(what)(value)) is not None:
        settings.refuse(name, reason)
    return value


def _read_patterns(settings: Settings, name: str, text: str) -> list[str]:
    patterns = [pattern.strip() for pattern in text.split(",") if pattern.strip()]
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error:
            settings.refuse(name, f"{pattern!r} is not a regular expression")
            return []
    return patterns
