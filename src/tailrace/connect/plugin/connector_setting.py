"""The settings that all connectors have, as Kafka Connect's workers define them."""

from collections.abc import Mapping
from dataclasses import replace

from tailrace import __version__
from tailrace.connect.plugin.base import Definition, Importance, Kind, Plugin, Type, Width
from tailrace.connect.plugin.check import (
    at_least,
    no_control_characters,
    no_repetition,
    not_empty,
    one_of,
    one_of_any_case,
)

STRING_CLASS = "org.apache.kafka.connect.storage.StringConverter"
JSON_CLASS = "org.apache.kafka.connect.json.JsonConverter"
BYTES_CLASS = "org.apache.kafka.connect.converters.ByteArrayConverter"
AVRO_CLASS = "io.confluent.connect.avro.AvroConverter"
CONVERTERS = (AVRO_CLASS, BYTES_CLASS, JSON_CLASS, STRING_CLASS)

NAME = "name"
CONNECTOR_CLASS = "connector.class"
TASKS_MAX = "tasks.max"
KEY_CONVERTER = "key.converter"
VALUE_CONVERTER = "value.converter"
HEADER_CONVERTER = "header.converter"
PLUGIN_VERSION = "plugin.version"
TRANSFORMS = "transforms"
PREDICATES = "predicates"
TOPICS = "topics"
TOPICS_REGEX = "topics.regex"
TOLERANCE = "errors.tolerance"
ERRORS_LOG = "errors.log.enable"
ERRORS_LOG_MESSAGES = "errors.log.include.messages"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
DEAD_LETTER_REPLICATION = "errors.deadletterqueue.topic.replication.factor"
TOPIC_CREATION = "topic.creation."
TOPIC_CREATION_GROUPS = "topic.creation.groups"
EXACTLY_ONCE = "exactly.once.support"
BOUNDARY = "transaction.boundary"
BOUNDARY_INTERVAL = "transaction.boundary.interval.ms"
PRODUCER_OVERRIDE = "producer.override."
CONSUMER_OVERRIDE = "consumer.override."

_COMMON = "Common"
_ERRORS = "Error Handling"
_EXACT = "Exactly Once Support"
_SIMPLE_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_HEADER_CONVERTERS = (_SIMPLE_HEADERS, STRING_CLASS)
_SQL = "use connector.class tailrace.Source or tailrace.Sink, which have sql"
_RESTARTS = "flows with a temporary failure restart by themselves"

H, M, L = Importance.HIGH, Importance.MEDIUM, Importance.LOW

_EVERY_CONNECTOR = (
    Definition(
        NAME,
        importance=H,
        documentation="Name of the connector, unique among those of the service.",
        group=_COMMON,
        order=1,
        width=Width.MEDIUM,
        display_name="Connector name",
        required=True,
        check=no_control_characters,
    ),
    Definition(
        CONNECTOR_CLASS,
        importance=H,
        documentation="The plugin: its full name, its last part, or that without the ending Connector.",
        group=_COMMON,
        order=2,
        width=Width.LONG,
        display_name="Connector class",
        required=True,
    ),
    Definition(
        "connector.plugin.version",
        Type.STRING,
        __version__,
        M,
        "Connector version. There is one.",
        _COMMON,
        3,
        Width.MEDIUM,
        "Connector version",
        recommended=(__version__,),
        accepted=(__version__,),
        instead="remove it",
    ),
    Definition(
        TASKS_MAX,
        Type.INT,
        "1",
        H,
        "A connector has one task, whose work Spark divides by partitions and cores.",
        _COMMON,
        4,
        Width.SHORT,
        "Tasks max",
        check=at_least(1),
    ),
    Definition(
        "tasks.max.enforce",
        Type.BOOLEAN,
        "true",
        L,
        "Whether tasks.max is enforced. A connector never has more than one task.",
        _COMMON,
        5,
        Width.SHORT,
        "Enforce tasks max",
        accepted=("true",),
    ),
    Definition(
        KEY_CONVERTER,
        Type.CLASS,
        None,
        L,
        "The format of the keys of records.",
        _COMMON,
        6,
        Width.SHORT,
        "Key converter class",
        recommended=CONVERTERS,
    ),
    Definition(
        f"{KEY_CONVERTER}.{PLUGIN_VERSION}",
        Type.STRING,
        __version__,
        L,
        "Key converter version. There is one.",
        _COMMON,
        7,
        Width.SHORT,
        "Key converter version",
        recommended=(__version__,),
        accepted=(__version__,),
        instead="remove it",
    ),
    Definition(
        VALUE_CONVERTER,
        Type.CLASS,
        None,
        L,
        "The format of the values of records.",
        _COMMON,
        8,
        Width.SHORT,
        "Value converter class",
        recommended=CONVERTERS,
    ),
    Definition(
        f"{VALUE_CONVERTER}.{PLUGIN_VERSION}",
        Type.STRING,
        __version__,
        L,
        "Value converter version. There is one.",
        _COMMON,
        9,
        Width.SHORT,
        "Value converter version",
        recommended=(__version__,),
        accepted=(__version__,),
        instead="remove it",
    ),
    Definition(
        HEADER_CONVERTER,
        Type.CLASS,
        _SIMPLE_HEADERS,
        L,
        "The format of headers. They are texts.",
        _COMMON,
        10,
        Width.SHORT,
        "Header converter class",
        recommended=_HEADER_CONVERTERS,
        accepted=_HEADER_CONVERTERS,
        instead="remove it: headers are texts",
    ),
    Definition(
        f"{HEADER_CONVERTER}.{PLUGIN_VERSION}",
        Type.STRING,
        __version__,
        L,
        "Header converter version. There is one.",
        _COMMON,
        11,
        Width.SHORT,
        "Header converter version",
        recommended=(__version__,),
        accepted=(__version__,),
        instead="remove it",
    ),
    Definition(
        TRANSFORMS,
        Type.LIST,
        "",
        L,
        "Transformations of single records. There are none: SQL replaces them.",
        "Transforms",
        12,
        Width.LONG,
        "Transforms",
        check=no_repetition,
        accepted=(),
        instead=_SQL,
    ),
    Definition(
        PREDICATES,
        Type.LIST,
        "",
        L,
        "Conditions of transformations. There are none: SQL replaces them.",
        "Predicates",
        13,
        Width.LONG,
        "Predicates",
        check=no_repetition,
        accepted=(),
        instead=_SQL,
    ),
    Definition(
        "config.action.reload",
        default="restart",
        documentation="What happens if a config provider reports a change. Those of this service report none.",
        group=_COMMON,
        order=14,
        width=Width.MEDIUM,
        display_name="Reload Action",
        check=one_of("none", "restart"),
    ),
    Definition(
        "errors.retry.timeout",
        Type.LONG,
        "0",
        M,
        "Milliseconds for which a failed operation on a record is repeated.",
        _ERRORS,
        1,
        Width.MEDIUM,
        "Retry Timeout for Errors",
        accepted=("0",),
        instead=f"remove it: {_RESTARTS}",
    ),
    Definition(
        "errors.retry.delay.max.ms",
        Type.LONG,
        "60000",
        M,
        "The longest delay between such attempts.",
        _ERRORS,
        2,
        Width.MEDIUM,
        "Maximum Delay Between Retries for Errors",
        accepted=("60000",),
        instead=f"remove it: {_RESTARTS}",
    ),
    Definition(
        TOLERANCE,
        default="none",
        importance=M,
        documentation="none: a record that cannot be processed stops the connector. all: it is left out and counted.",
        group=_ERRORS,
        order=3,
        width=Width.SHORT,
        display_name="Error Tolerance",
        check=one_of("none", "all"),
    ),
    Definition(
        ERRORS_LOG,
        Type.BOOLEAN,
        "false",
        M,
        "Whether each error is logged. An error that stops the connector always is.",
        _ERRORS,
        4,
        Width.SHORT,
        "Log Errors",
    ),
    Definition(
        ERRORS_LOG_MESSAGES,
        Type.BOOLEAN,
        "false",
        M,
        "Whether the log has the record. The beginning of its value is always in the message.",
        _ERRORS,
        5,
        Width.SHORT,
        "Log Error Details",
    ),
)

DEAD_LETTERS = (
    Definition(
        DEAD_LETTER_TOPIC,
        default="",
        importance=M,
        documentation="The topic for records that cannot be processed, with errors.tolerance=all.",
        group=_ERRORS,
        order=6,
        width=Width.MEDIUM,
        display_name="Dead Letter Queue Topic Name",
    ),
    Definition(
        DEAD_LETTER_REPLICATION,
        Type.SHORT,
        "3",
        M,
        "The replication factor of that topic if it is created. If it is not given, the brokers choose.",
        _ERRORS,
        7,
        Width.MEDIUM,
        "Dead Letter Queue Topic Replication Factor",
    ),
    Definition(
        "errors.deadletterqueue.context.headers.enable",
        Type.BOOLEAN,
        "false",
        M,
        "Whether dead letters have headers with the origin and the error. They always do.",
        _ERRORS,
        8,
        Width.MEDIUM,
        "Enable Error Context Headers",
        accepted=("true",),
        instead="remove it: dead letters always have these headers",
    ),
)

_SINK = (
    Definition(
        TOPICS,
        Type.LIST,
        "",
        H,
        "The topics to read, separated by commas.",
        _COMMON,
        4,
        Width.LONG,
        "Topics",
    ),
    Definition(
        TOPICS_REGEX,
        default="",
        importance=H,
        documentation="A pattern of topics to read. It is not supported.",
        group=_COMMON,
        order=4,
        width=Width.LONG,
        display_name="Topics regex",
        accepted=(),
        instead="name the topics in topics",
    ),
    *DEAD_LETTERS,
)

_SOURCE = (
    Definition(
        TOPIC_CREATION_GROUPS,
        Type.LIST,
        "",
        L,
        "Groups of settings for topics that the connector creates.",
        "Topic Creation",
        1,
        Width.LONG,
        "Topic Creation Groups",
        check=no_repetition,
    ),
    Definition(
        EXACTLY_ONCE,
        default="requested",
        importance=M,
        documentation="required: the connector is refused unless it can write each record exactly once.",
        group=_EXACT,
        order=2,
        width=Width.SHORT,
        display_name="Exactly once support",
        check=one_of_any_case("requested", "required"),
    ),
    Definition(
        BOUNDARY,
        default="poll",
        importance=M,
        documentation="poll: a transaction for each batch. interval: one in each transaction.boundary.interval.ms.",
        group=_EXACT,
        order=3,
        width=Width.SHORT,
        display_name="Transaction Boundary",
        check=one_of_any_case("poll", "connector", "interval"),
        accepted=("poll", "interval"),
    ),
    Definition(
        BOUNDARY_INTERVAL,
        Type.LONG,
        None,
        L,
        "The interval between transactions, with transaction.boundary=interval.",
        _EXACT,
        4,
        Width.SHORT,
        "Transaction boundary interval",
        check=at_least(0),
    ),
    Definition(
        "offsets.storage.topic",
        importance=L,
        documentation="A topic for the positions of the connector. Its checkpoint holds them instead.",
        group="offsets.topic",
        order=1,
        width=Width.LONG,
        display_name="Offsets topic",
        check=not_empty,
        accepted=(),
        instead="remove it: the checkpoint of the connector holds its positions",
    ),
)


def common_definitions(plugin: Plugin) -> tuple[Definition, ...]:
    """Return the settings of all connectors of this kind; the plugin's own of the same name replace them."""
    own = {definition.name for definition in plugin.definitions}
    of_kind = _SINK if plugin.kind is Kind.SINK else _SOURCE
    return tuple(each for each in (*_EVERY_CONNECTOR, *of_kind) if each.name not in own)


def all_definitions(plugin: Plugin, worker: Mapping[str, str] | None = None) -> tuple[Definition, ...]:
    """Return all settings of connectors of a plugin; the converters of the worker are the default."""
    converters = (KEY_CONVERTER, VALUE_CONVERTER, HEADER_CONVERTER)
    given = {name: text for name, text in (worker or {}).items() if name in converters}
    found = (*common_definitions(plugin), *plugin.definitions)
    return tuple(replace(each, default=given[each.name]) if each.name in given else each for each in found)
