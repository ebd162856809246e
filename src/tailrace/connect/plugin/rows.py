"""The rows that sinks with columns read from topics: decoded values, keys, and records without a value."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tailrace.connect.plugin.base import Definition, Importance
from tailrace.connect.plugin.converter import Converter, Format, find_converter
from tailrace.connect.plugin.document import consumer_arguments, quote, select, sql_text
from tailrace.connect.plugin.setting import Settings

SCHEMA = "tailrace.schema"
KEY_SCHEMA = "tailrace.key.schema"

KEY, VALUE, PAYLOAD = "key", "value", "payload"

SCHEMA_DEFINITION = Definition(
    SCHEMA,
    importance=Importance.HIGH,
    documentation="The columns of JSON values, such as: id bigint, name string. Avro values have a schema.",
    group="Tailrace",
    order=1,
)
KEY_SCHEMA_DEFINITION = Definition(
    KEY_SCHEMA,
    documentation="The columns of JSON keys, with pk.mode=record_key.",
    group="Tailrace",
    order=2,
)

_VALUE_FORMATS = (Format.JSON, Format.JSON_WITH_SCHEMA, Format.AVRO)


@dataclass(slots=True)
class TopicRows:
    """What a flow reads from topics, and the query over it, as it is put together."""

    converter: Converter
    arguments: dict[str, Any]
    include: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    """The columns that are selected in place of all columns of the value."""
    more: list[str] = field(default_factory=list)
    """Expressions that are selected besides them."""
    conditions: list[str] = field(default_factory=list)

    def add(self, included: str, *expressions: str) -> None:
        """Read a column of the record, and select expressions over it."""
        if included not in self.include:
            self.include.append(included)
        self.more += expressions

    def source(self, topics: str | Sequence[str]) -> dict[str, Any]:
        """Return the source of a flow."""
        names = topics if isinstance(topics, str) else list(topics)
        include = {"include": list(self.include)} if self.include else {}
        return {"connector": "topic", "name": names, **self.arguments, **include}

    def sql(self) -> dict[str, str]:
        """Return the key `sql` of a flow; none if the rows are written as they are."""
        if self.columns:
            prefix = f"{PAYLOAD}." if self.converter.format is Format.JSON_WITH_SCHEMA else ""
            columns = [prefix + quote(column) for column in self.columns]
        elif self.converter.format is Format.JSON_WITH_SCHEMA:
            columns = [f"{PAYLOAD}.*"]
        else:
            columns = [f"* EXCEPT ({', '.join(self.include)})" if self.include else "*"]
        if not self.include and columns == ["*"] and not self.conditions:
            return {}
        return {"sql": select(*columns, *self.more, where=" AND ".join(self.conditions) or None)}


def read_rows(settings: Settings) -> TopicRows:
    """Return how the values of topics are read; adds problems."""
    converter = find_converter(settings, "value", Converter(Format.JSON), _VALUE_FORMATS)
    arguments = consumer_arguments(settings)
    schema = settings.text(SCHEMA)
    if converter.format is Format.AVRO:
        if schema:
            settings.refuse(SCHEMA, "the schema of Avro values is in the registry; remove it")
        return TopicRows(converter, {"value": "avro", "registry": dict(converter.registry), **arguments})
    if not schema:
        settings.refuse(
            SCHEMA,
            "the columns of JSON values are needed, such as: id bigint, name string. "
            "Only io.confluent.connect.avro.AvroConverter does without",
        )
    if converter.format is Format.JSON_WITH_SCHEMA:
        schema = f"{PAYLOAD} struct<{schema}>"
    return TopicRows(converter, {"schema": schema, **arguments})


def add_key(settings: Settings, rows: TopicRows, names: Sequence[str]) -> None:
    """Select columns of the record's key; adds problems."""
    converter = find_converter(settings, "key", Converter(Format.TEXT), (Format.TEXT, Format.JSON))
    schema = settings.text(KEY_SCHEMA)
    text = f"CAST({KEY} AS STRING)"
    if converter.format is Format.TEXT:
        if schema:
            settings.refuse(KEY_SCHEMA, "it is for key.converter=org.apache.kafka.connect.json.JsonConverter")
        if len(names) != 1:
            settings.refuse("pk.fields", "a key that is a text is one column; name one")
        rows.add(KEY, *(f"{text} AS {quote(name)}" for name in names[:1]))
        return
    if not schema:
        settings.refuse(KEY_SCHEMA, "the columns of JSON keys are needed, such as: id bigint")
    if not names:
        settings.refuse("pk.fields", "name the columns of the key")
    decoded = f"from_json({text}, {sql_text(schema)}, map('mode', 'FAILFAST'))"
    rows.add(KEY, *(f"{decoded}.{quote(name)} AS {quote(name)}" for name in names))
