"""Kafka's FileStream connectors: lines of a file to a topic, and values of topics to lines of a file."""

from typing import Any

from tailrace.connect.plugin.base import Definition, Importance, Kind, Plugin, Translation, Type
from tailrace.connect.plugin.check import not_empty
from tailrace.connect.plugin.converter import Converter, Format, find_converter
from tailrace.connect.plugin.document import (
    consumer_arguments,
    finish,
    flow_name,
    producer_options,
    read_errors,
    read_every,
    read_topics,
    select,
)
from tailrace.connect.plugin.setting import Settings

FILE = "file"
TOPIC = "topic"
BATCH_SIZE = "batch.size"

_FORMATS = (Format.TEXT, Format.JSON, Format.JSON_WITH_SCHEMA)
_TEXT = Converter(Format.TEXT)
_AS_JSON = "substring(to_json(array(value)), 2, length(to_json(array(value))) - 2)"
"""Spark makes no JSON of a plain text, so a list of one text is made, without its brackets."""

_SOURCE_SQL = {
    Format.TEXT: None,
    Format.JSON: select(f"{_AS_JSON} AS value"),
    Format.JSON_WITH_SCHEMA: select(
        f'concat(\'{{"schema":{{"type":"string","optional":false}},"payload":\', {_AS_JSON}, \'}}\') AS value'
    ),
}
_VALUE = "CAST(value AS STRING)"
_SINK_SQL = {
    Format.TEXT: select(f"coalesce({_VALUE}, 'null') AS value"),
    Format.JSON: select(
        f"coalesce(get_json_object(concat('{{\"value\":', {_VALUE}, '}}'), '$.value'), 'null') AS value"
    ),
    Format.JSON_WITH_SCHEMA: select(f"coalesce(get_json_object({_VALUE}, '$.payload'), 'null') AS value"),
}


def _translate_source(settings: Settings) -> Translation:
    if not settings.text(FILE):
        settings.refuse(FILE, "the path of a file is needed: the standard input cannot be read")
    converter = find_converter(settings, "value", _TEXT, _FORMATS)
    find_converter(settings, "key", _TEXT, tuple(Format))  # there are no keys
    source: dict[str, Any] = {"connector": "lines", "path": settings.text(FILE)}
    if settings.is_given(BATCH_SIZE):
        source["max_lines"] = max(settings.number(BATCH_SIZE), 1)  # as Kafka takes 0
    sql = _SOURCE_SQL[converter.format]
    topic = settings.text(TOPIC)
    options = producer_options(settings)
    document = {
        "name": flow_name(settings.name),
        "source": source,
        **({} if sql is None else {"sql": sql}),
        "sink": {"connector": "topic", "name": topic, "format": "raw", **({"options": options} if options else {})},
        **read_every(settings),
        **read_errors(settings),
    }
    return finish(settings, Kind.SOURCE, [document], [topic])


def _translate_sink(settings: Settings) -> Translation:
    if not settings.text(FILE):
        settings.refuse(FILE, "the path of a file is needed: the standard output cannot be written")
    topics = read_topics(settings)
    converter = find_converter(settings, "value", _TEXT, _FORMATS)
    find_converter(settings, "key", _TEXT, tuple(Format))  # keys are not written
    document = {
        "name": flow_name(settings.name),
        "source": {"connector": "topic", "name": topics, **consumer_arguments(settings)},
        "sql": _SINK_SQL[converter.format],
        "sink": {"connector": "lines", "path": settings.text(FILE)},
        **read_errors(settings),
    }
    return finish(settings, Kind.SINK, [document], topics)


SOURCE = Plugin(
    "org.apache.kafka.connect.file.FileStreamSourceConnector",
    Kind.SOURCE,
    (
        Definition(FILE, importance=Importance.HIGH, documentation="The file to read. It is required here."),
        Definition(
            TOPIC,
            importance=Importance.HIGH,
            documentation="The topic for the lines.",
            required=True,
            check=not_empty,
        ),
        Definition(
            BATCH_SIZE,
            Type.INT,
            "2000",
            Importance.LOW,
            "The most lines in a batch. Without it, a batch has up to 16 MiB.",
        ),
    ),
    _translate_source,
)

SINK = Plugin(
    "org.apache.kafka.connect.file.FileStreamSinkConnector",
    Kind.SINK,
    (
        Definition(
            FILE,
            importance=Importance.HIGH,
            documentation="The file to which values are appended as lines. It is required here.",
        ),
    ),
    _translate_sink,
)
