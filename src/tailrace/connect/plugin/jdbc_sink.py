"""Confluent's JDBC sink connector: a table for each topic."""

from typing import Any

from tailrace.connect.plugin import jdbc_url
from tailrace.connect.plugin.base import Group, Importance, Kind, Plugin, Translation, Type
from tailrace.connect.plugin.check import not_empty, one_of_any_case
from tailrace.connect.plugin.converter import Converter, Format, find_converter
from tailrace.connect.plugin.document import finish, flow_name, quote, read_errors, read_topics
from tailrace.connect.plugin.jdbc_source import connection_definitions
from tailrace.connect.plugin.rows import (
    KEY_SCHEMA,
    KEY_SCHEMA_DEFINITION,
    SCHEMA_DEFINITION,
    VALUE,
    TopicRows,
    add_key,
    read_rows,
)
from tailrace.connect.plugin.setting import Settings

INSERT_MODE = "insert.mode"
PK_MODE = "pk.mode"
PK_FIELDS = "pk.fields"
FIELDS = "fields.whitelist"
DELETE = "delete.enabled"
CREATE = "auto.create"
EVOLVE = "auto.evolve"
TABLE = "table.name.format"

_INSERT, _UPSERT = "insert", "upsert"
_NONE, _KAFKA, _KEY, _VALUE = "none", "kafka", "record_key", "record_value"
_PLACE = {"topic": "__connect_topic", "partition": "__connect_partition", "offset": "__connect_offset"}
_DELETED = "tailrace_deleted"
_ONLY_POSTGRES = "it is only possible with PostgreSQL, whose URL begins with jdbc:postgresql:"
_RESTARTS = "remove it: a flow that cannot reach the database restarts by itself"
_H, _M = Importance.HIGH, Importance.MEDIUM


def _translate(settings: Settings) -> Translation:
    topics = read_topics(settings)
    rows = read_rows(settings)
    key = _read_key(settings, rows)
    deletes = settings.flag(DELETE)
    if not deletes:
        rows.arguments["tombstones"] = "reject"
    elif settings.text(PK_MODE).lower() != _KEY:
        settings.refuse(DELETE, f"{DELETE} needs {PK_MODE}={_KEY}")
    else:
        rows.add(VALUE, f"{VALUE} IS NULL AS {_DELETED}")
    if fields := settings.items(FIELDS):
        rows.columns = [*(key if settings.text(PK_MODE).lower() == _VALUE else ()), *fields]
        rows.columns = list(dict.fromkeys(rows.columns))
    endpoint, spark = _endpoint(settings, key, deletes=deletes)
    rest = {**rows.sql(), **read_errors(settings)}
    documents = [
        {
            "name": flow_name(settings.name, topic if len(topics) > 1 else ""),
            "source": rows.source(topic),
            "sink": {**endpoint, "table": settings.text(TABLE).replace("${topic}", topic)},
            **rest,
        }
        for topic in topics
    ]
    if len(documents) > 1 and "${topic}" not in settings.text(TABLE):
        settings.refuse(TABLE, "several topics need a table each: use ${topic} in it")
    return finish(settings, Kind.SINK, documents, topics, spark)


def _read_key(settings: Settings, rows: TopicRows) -> list[str]:
    """Return the columns of the table's key, and select them; adds problems."""
    mode, names = settings.text(PK_MODE).lower(), settings.items(PK_FIELDS)
    if mode == _KEY:
        add_key(settings, rows, names)
        return names
    find_converter(settings, "key", Converter(Format.TEXT), tuple(Format))  # keys are not written
    if settings.is_given(KEY_SCHEMA):
        settings.refuse(KEY_SCHEMA, f"it needs {PK_MODE}={_KEY}")
    if mode == _KAFKA:
        if names and len(names) != len(_PLACE):
            settings.refuse(PK_FIELDS, f"{PK_MODE}={_KAFKA} needs three names, or none")
            return []
        chosen = names or list(_PLACE.values())
        for column, name in zip(_PLACE, chosen, strict=True):
            rows.add(column, f"{column} AS {quote(name)}")
        return chosen
    if mode == _NONE and names:
        settings.refuse(PK_FIELDS, f"{PK_MODE}={_NONE} has no key; remove it")
    if mode == _VALUE and not names:
        settings.refuse(PK_FIELDS, f"{PK_MODE}={_VALUE} needs the names of the columns")
    return names


def _endpoint(settings: Settings, key: list[str], *, deletes: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the sink without its table, and what Spark needs for it; adds problems."""
    upserts = settings.text(INSERT_MODE).lower() == _UPSERT
    if upserts and settings.text(PK_MODE).lower() == _NONE:
        settings.refuse(PK_MODE, f"{INSERT_MODE}={_UPSERT} needs a key: {_KEY}, {_VALUE} or {_KAFKA}")
    if not jdbc_url.is_postgres(settings):
        if upserts:
            settings.refuse(INSERT_MODE, _ONLY_POSTGRES)
        for name in (DELETE, EVOLVE):
            if settings.flag(name):
                settings.refuse(name, _ONLY_POSTGRES)
        if not settings.flag(CREATE):
            settings.refuse(CREATE, "Spark creates a table that does not exist; set it to true")
        return jdbc_url.jdbc_endpoint(settings), jdbc_url.spark_configs(settings)
    if deletes and not upserts:
        settings.refuse(DELETE, f"{DELETE} needs {INSERT_MODE}={_UPSERT}")
    endpoint: dict[str, Any] = {"connector": "postgres", "url": jdbc_url.postgres_url(settings)}
    if upserts:
        endpoint |= {"key": key, "mode": _UPSERT}
    endpoint |= {"create": settings.flag(CREATE), "evolve": settings.flag(EVOLVE)}
    if deletes:
        endpoint |= {"delete_when": _DELETED, "exclude": [_DELETED]}
    return endpoint, {}


_CONNECTION, _WRITES, _MAPPING = Group("Connection"), Group("Writes"), Group("Data Mapping")
_DDL, _RETRIES = Group("DDL Support"), Group("Retries")

SINK = Plugin(
    "io.confluent.connect.jdbc.JdbcSinkConnector",
    Kind.SINK,
    (
        *connection_definitions(_CONNECTION),
        _WRITES.define(
            INSERT_MODE,
            Type.STRING,
            _INSERT,
            _H,
            "insert adds each row; upsert updates the row with the same key. PostgreSQL is needed for upsert.",
            check=one_of_any_case(_INSERT, _UPSERT, "update"),
            recommended=(_INSERT, _UPSERT),
            accepted=(_INSERT, _UPSERT),
            instead="upsert updates rows that exist, and inserts others",
        ),
        _WRITES.refuse("batch.size", "3000", "remove it: rows are copied in large batches", Type.INT),
        _WRITES.define(
            DELETE,
            Type.BOOLEAN,
            "false",
            _M,
            "Whether a record without a value deletes the row of its key, with pk.mode=record_key.",
        ),
        _WRITES.refuse("table.types", "TABLE", kind=Type.LIST),
        _WRITES.define(
            "replace.null.with.default",
            Type.BOOLEAN,
            "true",
            documentation="Whether null becomes the default of the schema. Null stays null.",
            accepted=("false",),
            instead="null stays null; remove it",
        ),
        _MAPPING.define(
            TABLE,
            Type.STRING,
            "${topic}",
            _M,
            "The table, such as kafka_${topic}.",
            check=not_empty,
        ),
        _MAPPING.define(
            PK_MODE,
            Type.STRING,
            _NONE,
            _H,
            "Where the key of the table comes from: none, kafka (topic, partition, offset), record_key, record_value.",
            check=one_of_any_case(_NONE, _KAFKA, _KEY, _VALUE),
            recommended=(_NONE, _KAFKA, _KEY, _VALUE),
        ),
        _MAPPING.define(PK_FIELDS, Type.LIST, "", _M, "The columns of the key."),
        _MAPPING.define(FIELDS, Type.LIST, "", _M, "The columns that are written, besides the key; all by default."),
        _MAPPING.refuse("timestamp.fields.list", "", kind=Type.LIST),
        _MAPPING.refuse("date.timezone", "DB_TIMEZONE"),
        _DDL.define(CREATE, Type.BOOLEAN, "false", _M, "Whether a table that does not exist is created."),
        _DDL.define(EVOLVE, Type.BOOLEAN, "false", _M, "Whether columns that the table lacks are added."),
        _RETRIES.refuse("max.retries", "10", _RESTARTS, Type.INT),
        _RETRIES.refuse("retry.backoff.ms", "3000", _RESTARTS, Type.INT),
        SCHEMA_DEFINITION,
        KEY_SCHEMA_DEFINITION,
    ),
    _translate,
)
