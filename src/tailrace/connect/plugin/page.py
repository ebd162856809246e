"""The documentation page of the plugins and their settings."""

from collections.abc import Iterable

from tailrace.connect.plugin import debezium_postgres, file_stream, jdbc_sink, jdbc_source, own, s3_sink
from tailrace.connect.plugin.base import Definition, Kind, Plugin
from tailrace.connect.plugin.connector_setting import common_definitions
from tailrace.connect.plugin.known import PLUGINS

_HEAD = """\
# Configurations of Kafka Connect

The [Connect service](../CONNECT.md) takes configurations of Kafka Connect, and runs each connector as a
[pipeline](../PIPELINES.md). This page is generated from the definitions in the code. It lists the settings of each
plugin, and the values that are supported. A setting that a pipeline cannot honour is refused, and so is a setting
that is not on this page: the error names it, and says what to do instead. No setting is ignored.

`connector.class` is the full name of a plugin, its last part, or that without the ending `Connector`.

| plugin | becomes |
| --- | --- |
| `FileStreamSource`, `FileStreamSink` | [`lines`](lines.md) |
| `JdbcSource`, `JdbcSink` | [`postgres`](postgres.md) for PostgreSQL, [`jdbc`](jdbc.md) for other databases |
| `io.debezium.connector.postgresql.PostgresConnector` | [`postgres_changes`](postgres_changes.md) |
| `S3Sink` | [`s3`](s3.md) |
| `tailrace.Source`, `tailrace.Sink` | any connector of pipelines |

## Values from files and the environment

| reference | value |
| --- | --- |
| `${file:PATH:KEY}` | the property `KEY` of a properties file |
| `${dir:PATH:FILE}` | the content of a file in a folder |
| `${env:NAME}` | an environment variable of the service |

They are replaced when a connector is validated and when it starts. The REST API shows the references.

## Converters

A converter is named by its class, in full or by its last part. A connector that names none has those of the worker;
if the worker names none either, FileStream connectors write and read text, and all others JSON without schemas.

| converter | FileStream | JDBC source | Debezium | JDBC sink, S3 sink |
| --- | --- | --- | --- | --- |
| `org.apache.kafka.connect.storage.StringConverter` | yes | – | – | keys |
| `org.apache.kafka.connect.json.JsonConverter` with `schemas.enable=false` | yes | yes | yes | with `tailrace.schema` |
| the same with `schemas.enable=true` (its default) | yes | – | – | with `tailrace.schema`, the columns of `payload` |
| `io.confluent.connect.avro.AvroConverter` with `schema.registry.url` | – | yes | – | yes |
| `org.apache.kafka.connect.converters.ByteArrayConverter` | – | – | – | – |

JSON is written as pipelines write it: columns that are null are left out, numbers with decimals are numbers, and
times are ISO 8601. `schema.registry.url` can have `basic.auth.user.info` beside it.

## Settings of all connectors

`topic.creation.default.*`, and those of the groups in `topic.creation.groups`, say how the topics of a source are
created. `producer.override.*` and `consumer.override.*` are configs of the client that writes or reads the topic of
the connector, as far as Tailrace's client has them; `consumer.override.auto.offset.reset` says where a sink starts.
`transforms.*`, `predicates.*` and `admin.override.*` are refused.

"""

_NOTES = {
    file_stream.SOURCE.class_name: (
        "A line is written when its end is in the file. Lines are written exactly once. If the file becomes "
        "shorter, the connector stops. Relative paths start at the folder in which the service was started."
    ),
    file_stream.SINK.class_name: (
        "Lines are appended exactly once: a batch that was interrupted is cut off and written again. So no "
        "other program may append to the file. With `JsonConverter`, an object is written as JSON, where "
        "Kafka writes Java's text of a map. A record without a value is the line `null`."
    ),
    jdbc_source.SOURCE.class_name: (
        "The topic of a table is `topic.prefix` and the name of the table without its schema. With "
        "PostgreSQL, the modes that follow a table read each version of a row once, also if it is committed "
        "late, and `incrementing` reads recent rows again when they are updated. Other databases are read as "
        "[`jdbc`](jdbc.md) does. `bulk` reads a table once, where Confluent's connector reads it again in "
        "each interval."
    ),
    jdbc_sink.SINK.class_name: (
        "PostgreSQL tables are written exactly once, those of other databases at least once. A record without "
        "a value is handled as `errors.tolerance` says, unless `delete.enabled` is true; then no column of "
        "the value can be called `value` or `key`. With `insert.mode=insert`, a table that is created has no "
        "primary key."
    ),
    s3_sink.SINK.class_name: (
        "Objects are below `s3://BUCKET/TOPICS.DIR/TOPIC/`, with the [names and manifests](s3.md#delivery) "
        "that make delivery exactly once; there are no folders `partition=N`. An object has at most "
        "`flush.size` records. Objects are written when the topic has so many new records, or after the "
        "rotation interval."
    ),
    debezium_postgres.SOURCE.class_name: (
        "The topics are `PREFIX.SCHEMA.TABLE`, and the [events](postgres_changes.md#columns) are those of "
        "Debezium in JSON without schemas. One slot serves all tables. Events are written exactly once. "
        "`decimal.handling.mode` and `interval.handling.mode` must be set to `string`, because Debezium's "
        "defaults are not supported."
    ),
    own.SOURCE.class_name: (
        "Reads any connector of pipelines and writes a topic. `source.NAME` is the argument `NAME` of the "
        "connector, `source.options.NAME` one of its options, and `sink.NAME` an argument of "
        "[`topic`](../PIPELINES.md#sinks), such as `sink.key`. A list is separated by commas. `expect.NAME` "
        "is a rule, and `expect.NAME.on_fail` its effect."
    ),
    own.SINK.class_name: (
        "Reads topics and writes any connector of pipelines. `sink.NAME` is the argument `NAME` of the "
        "connector, and `source.NAME` one of [`topic`](../PIPELINES.md#sources), such as `source.schema`. The "
        "rest is as above."
    ),
}

_OWN_EXAMPLE = """\
```json
{
  "connector.class": "tailrace.Sink",
  "topics": "orders",
  "source.schema": "id bigint, cents bigint",
  "sql": "SELECT id, cents FROM source WHERE cents > 0",
  "sink.connector": "redis",
  "sink.url": "redis://localhost:6379",
  "sink.hash": "order:{id}",
  "expect.large": "cents < 1000000",
  "expect.large.on_fail": "drop"
}
```

"""


def render() -> str:
    """Return the page."""
    parts = [_HEAD]
    every = [common_definitions(_first(kind)) for kind in Kind]
    shared = [each for each in every[0] if each in every[1]]
    parts.append(_table(shared))
    for kind, definitions in zip(Kind, every, strict=True):
        parts.append(f"Settings of all {kind}s:\n\n")
        parts.append(_table(each for each in definitions if each not in shared))
    for plugin in sorted(PLUGINS, key=lambda each: each.class_name):
        parts.append(f"## {plugin.class_name}\n\n{_wrap(_NOTES[plugin.class_name])}\n\n")
        if plugin is own.SINK:
            parts.append(_OWN_EXAMPLE)
        parts.append(_table(plugin.definitions))
    return "".join(parts).rstrip() + "\n"


def _first(kind: Kind) -> Plugin:
    return next(plugin for plugin in PLUGINS if plugin.kind is kind and plugin not in (own.SOURCE, own.SINK))


def _table(definitions: Iterable[Definition]) -> str:
    lines = ["| setting | default | supported | meaning |", "| --- | --- | --- | --- |"]
    lines += [_row(each) for each in definitions]
    return "\n".join(lines) + "\n\n"


def _row(each: Definition) -> str:
    default = "required" if each.required else f"`{each.default}`" if each.default else ""
    accepted = ", ".join(f"`{value}`" for value in each.accepted or () if value)
    supported = "yes" if each.accepted is None else accepted or "no"
    meaning = f"{each.documentation} {_sentence(each.instead)}" if each.instead else each.documentation
    return f"| `{each.name}` | {default} | {supported} | {meaning} |"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _wrap(text: str, width: int = 125) -> str:
    """Return a paragraph in lines of the length that the other pages have."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])
