"""The schemas of a flow's topics: which one each source reads, and the one that the sink writes.

A reader's schema is chosen when a flow is first started and remembered beside its checkpoint, so that a restart gives
the function the same columns: the state of a flow depends on them. Checking a flow chooses schemas, too, but it neither
remembers nor registers them; `settle` does both.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.schema.error import RegistryError
from tailrace.schema.language import SchemaType
from tailrace.schema.registry import Registry
from tailrace.schema.stored import NewSchema, StoredSchema
from tailrace.schema.subject_name import SubjectName
from tailrace.spark.connector.argument import refuse_origin
from tailrace.spark.connector.durable import write_durably
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.split import REASON, leave_out
from tailrace.spark.connector.topic.registered import Registered, ValueFormat
from tailrace.spark.connector.topic.registry_failure import is_missing, registry_scope
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.error import PipelineError
from tailrace.spark.record_place import ORIGIN, split_origin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

REMEMBERED = "reader_schemas.json"

_TYPES = {
    ValueFormat.AVRO: SchemaType.AVRO,
    ValueFormat.JSON: SchemaType.JSON,
    ValueFormat.PROTOBUF: SchemaType.PROTOBUF,
}


class FlowSchemas:
    """The schemas of one start of a flow."""

    def __init__(self, checkpoint: Path) -> None:
        self._remembered_in = checkpoint / REMEMBERED
        self._readers: dict[str, int] = {}
        self._written: tuple[Registered, str, NewSchema] | None = None

    def decode(self, rows: "DataFrame", source: Topic, registered: Registered, rejects: Rejects | None) -> "DataFrame":
        """Decode the values of a source by column, in executors. Without `rejects`, wrong values have null columns."""
        from tailrace.spark.connector.topic.framed_value import REASONS, ValueDecoder
        from tailrace.spark.connector.topic.value_type import arrow_columns, spark_columns

        stored = self._choose(source, registered)
        columns = spark_columns(arrow_columns(stored))
        refuse_origin(columns.names, source)
        twice = [name for name in columns.names if name in source.include]
        if twice:
            raise PipelineError(f"{source}: column {twice[0]} is both in the schema and in include")
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StringType, StructField, StructType

        decoder = ValueDecoder(
            registered.format,
            registered.registry,
            source.names[0],
            stored.id,
            rejects,
            to_arrow_schema(columns, timezone="UTC"),
            (*source.include, *split_origin(rows.columns)[1]),
        )
        fields = [*columns.fields, *(rows.schema[name] for name in decoder.include)]
        if not decoder.has_reasons:
            return rows.mapInArrow(decoder.decode, StructType(fields)).drop(ORIGIN)
        reason = StructField(REASON, StringType())
        return leave_out(rows.mapInArrow(decoder.decode, StructType([*fields, reason])), REASONS).drop(ORIGIN)

    def encode(self, rows: "DataFrame", sink: Topic, registered: Registered, rejects: Rejects) -> "DataFrame":
        """Encode rows by column, in executors, with the schema of the rows."""
        from pyspark.sql.functions import col, struct, to_json

        from tailrace.spark.connector.topic.framed_value import KEY, TEXT, ValueEncoder

        topic = sink.names[0]
        is_json = registered.format is ValueFormat.JSON
        names, origin = split_origin(rows.columns)
        text = derive(rows.select(*(f"`{name}`" for name in names)).schema, registered.format, topic)
        self._written = (registered, topic, NewSchema(text, _TYPES[registered.format]))
        self._check_written()
        has_key = sink.key is not None
        encoder = ValueEncoder(registered.format, registered.registry, topic, text, rejects, has_key=has_key)
        columns = [col(f"`{name}`") for name in names]
        values = [to_json(struct(*columns)).alias(TEXT)] if is_json else columns
        keys = [] if sink.key is None else [col(f"`{sink.key}`").cast("string").alias(KEY)]
        encoded = rows.select(*keys, *values, *origin).mapInArrow(
            encoder.encode, ", ".join((*(["key string"] if keys else []), "value binary", *encoder.added(origin)))
        )
        return leave_out(encoded, [encoder.reason]) if encoder.has_reasons else encoded

    def settle(self) -> None:
        """Remember the readers' schemas and register the writer's; the flow starts after this."""
        if self._readers:
            write_durably(self._remembered_in, json.dumps({**self._remembered(), **self._readers}) + "\n")
        if self._written is not None:
            registered, topic, schema = self._written
            with registry_scope(registered.registry), Registry.from_config(registered.registry) as registry:
                registry.register(_subject(topic), schema)

    def _choose(self, source: Topic, registered: Registered) -> StoredSchema:
        topic = source.names[0]
        subject, remembered = _subject(topic), self._remembered().get(topic)
        with registry_scope(registered.registry), Registry.from_config(registered.registry) as registry:
            try:
                if registered.version is not None:
                    stored = registry.version(subject, registered.version)
                elif remembered is not None and not registered.follow:
                    stored = registry.schema(remembered)
                else:
                    stored = registry.latest(subject)
            except RegistryError as error:
                if not is_missing(error):
                    raise
                raise PipelineError(
                    f"{source}: the registry at {registered.registry} has no schema for it: {error.message}"
                ) from None
        if stored.type is not _TYPES[registered.format]:
            raise PipelineError(
                f'{source}: the schema of {subject} is {stored.type}; value="{registered.format}" is not'
            )
        self._readers[topic] = stored.id
        return stored

    def _check_written(self) -> None:
        """Raise `PipelineError` if the subject of the sink has a schema that the new one is not compatible with."""
        if self._written is None:
            return
        registered, topic, schema = self._written
        with registry_scope(registered.registry), Registry.from_config(registered.registry) as registry:
            problems = registry.check(_subject(topic), schema)
        if problems:
            raise PipelineError(
                f"topic {topic}: the columns do not fit the schemas of {_subject(topic)}: {problems[0]}"
            )

    def _remembered(self) -> dict[str, int]:
        try:
            found = json.loads(self._remembered_in.read_text())
            return {str(topic): int(schema_id) for topic, schema_id in found.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, AttributeError) as error:
            raise PipelineError(f"the checkpoint file {self._remembered_in} cannot be read: {error}") from None


def derive(rows: "StructType", format_: ValueFormat, topic: str) -> str:
    """Return the schema of rows in a format. Raise `PipelineError` if a column has no type there."""
    from tailrace.spark.connector.topic.avro_schema import avro_schema
    from tailrace.spark.connector.topic.json_schema import json_schema
    from tailrace.spark.connector.topic.protobuf_schema import protobuf_schema

    makers = {
        ValueFormat.AVRO: avro_schema,
        ValueFormat.JSON: json_schema,
        ValueFormat.PROTOBUF: protobuf_schema,
    }
    return makers[format_](rows, topic)


def _subject(topic: str) -> str:
    return SubjectName.TOPIC.of(topic, None, is_key=False)
