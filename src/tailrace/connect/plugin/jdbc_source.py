"""Confluent's JDBC source connector: tables or a query, each read once or followed by a column that increases."""

from typing import Any

from tailrace.connect.plugin import connector_setting, jdbc_url
from tailrace.connect.plugin.base import Definition, Group, Importance, Kind, Plugin, Translation, Type
from tailrace.connect.plugin.check import at_least, not_empty, one_of
from tailrace.connect.plugin.converter import Converter, Format, find_converter
from tailrace.connect.plugin.document import (
    finish,
    flow_name,
    producer_options,
    read_errors,
    read_every,
)
from tailrace.connect.plugin.setting import Settings

MODE = "mode"
INCREMENTING = "incrementing.column.name"
TIMESTAMP = "timestamp.column.name"
TABLES = "table.whitelist"
QUERY = "query"
PREFIX = "topic.prefix"
POLL_MS = "poll.interval.ms"

_BULK, _TIMESTAMP, _INCREMENTING = "bulk", "timestamp", "incrementing"
_BOTH = f"{_TIMESTAMP}+{_INCREMENTING}"
_FORMATS = (Format.JSON, Format.AVRO)
_H, _M = Importance.HIGH, Importance.MEDIUM
_NAME_TABLES = f"name the tables in {TABLES}"
_RESTARTS = "remove it: a flow that cannot reach the database restarts by itself"


def _translate(settings: Settings) -> Translation:
    endpoint, spark = _endpoint(settings)
    cursor = _read_cursor(settings, is_postgres=endpoint.get("connector") == "postgres")
    converter = find_converter(settings, "value", Converter(Format.JSON), _FORMATS)
    find_converter(settings, "key", Converter(Format.TEXT), tuple(Format))  # there are no keys
    if settings.text(connector_setting.EXACTLY_ONCE).lower() == "required":
        settings.refuse(
            connector_setting.EXACTLY_ONCE, "rows that change between two reads make it impossible; use requested"
        )
    sink = {"connector": "topic", **_sink_arguments(converter)}
    if options := producer_options(settings):
        sink["options"] = options
    rest = {**read_every(settings), **read_errors(settings)}
    documents, topics = [], []
    for part, topic, what in _read_parts(settings, has_cursor="cursor" in cursor):
        document = {
            "name": flow_name(settings.name, part),
            "source": {**endpoint, **what, **cursor},
            "sink": {**sink, "name": topic},
            **rest,
        }
        documents.append(document)
        topics.append(topic)
    return finish(settings, Kind.SOURCE, documents, topics, spark)


def _endpoint(settings: Settings) -> tuple[dict[str, Any], dict[str, str]]:
    if jdbc_url.is_postgres(settings):
        return {"connector": "postgres", "url": jdbc_url.postgres_url(settings)}, {}
    return jdbc_url.jdbc_endpoint(settings), jdbc_url.spark_configs(settings)


def _sink_arguments(converter: Converter) -> dict[str, Any]:
    if converter.format is Format.AVRO:
        return {"value": "avro", "registry": dict(converter.registry)}
    return {}


def _read_parts(settings: Settings, *, has_cursor: bool) -> list[tuple[str, str, dict[str, str]]]:
    """Return the name of each flow, its topic, and the table or query that it reads."""
    tables, query, prefix = settings.items(TABLES), settings.text(QUERY), settings.text(PREFIX)
    if bool(tables) == bool(query):
        settings.refuse(TABLES, f"either {TABLES} or {QUERY} is needed" + (", and not both" if tables else ""))
    if query:
        if has_cursor and jdbc_url.is_postgres(settings):
            settings.refuse(QUERY, f"{QUERY} needs {MODE}={_BULK}: a query does not tell which rows are new")
        if not prefix:
            settings.refuse(PREFIX, f"{QUERY} needs the name of its topic")
        return [("", prefix, {"query": query})]
    parts = []
    for table in tables:
        name = table.replace('"', "").replace("`", "")
        last = name.rpartition(".")[2]
        parts.append((last if len(tables) > 1 else "", prefix + last, {"table": name}))
    if len({topic for _, topic, _ in parts}) < len(parts):
        settings.refuse(TABLES, "two tables have the same name, and would be written to the same topic")
    return parts


def _read_cursor(settings: Settings, *, is_postgres: bool) -> dict[str, Any]:
    """Return the arguments that follow a table; adds problems."""
    mode, incrementing, times = settings.text(MODE), settings.text(INCREMENTING), settings.items(TIMESTAMP)
    if mode == _BULK:
        for name in (INCREMENTING, TIMESTAMP):
            if settings.is_given(name):
                settings.refuse(name, f"{MODE}={_BULK} has no such column; remove it")
        if settings.is_given(POLL_MS):
            settings.refuse(POLL_MS, f"{MODE}={_BULK} reads each table once; remove it, or choose another mode")
        return {}
    if mode in (_INCREMENTING, _BOTH) and not incrementing:
        settings.refuse(INCREMENTING, f"{MODE}={mode} needs the name of the column")
    if mode in (_TIMESTAMP, _BOTH) and len(times) != 1:
        settings.refuse(TIMESTAMP, f"{MODE}={mode} needs the name of one column")
    if mode == _INCREMENTING and times:
        settings.refuse(TIMESTAMP, f"{MODE}={mode} has no such column; remove it")
    if mode == _TIMESTAMP and incrementing:
        settings.refuse(INCREMENTING, f"{MODE}={mode} has no such column; remove it")
    cursor = times[0] if mode != _INCREMENTING and times else incrementing
    arguments: dict[str, Any] = {"cursor": cursor, "poll": _read_poll(settings)}
    if is_postgres and incrementing and mode == _BOTH:
        arguments["key"] = incrementing
    return arguments


def _read_poll(settings: Settings) -> str:
    poll_ms = settings.number(POLL_MS)
    if poll_ms % 1000 or poll_ms < 1000:
        settings.refuse(POLL_MS, "a whole number of seconds is needed, such as 5000")
    return f"{poll_ms // 1000} seconds"


def connection_definitions(group: Group) -> tuple[Definition, ...]:
    """Return the settings of the connection, which the sink has too."""
    return (
        group.define(
            jdbc_url.URL,
            importance=_H,
            documentation="The database, such as jdbc:postgresql://host:5432/database.",
            required=True,
            check=not_empty,
        ),
        group.define(jdbc_url.USER, importance=_H, documentation="The user."),
        group.define(jdbc_url.PASSWORD, Type.PASSWORD, None, _H, "The password."),
        group.refuse("connection.attempts", "3", _RESTARTS, Type.INT),
        group.refuse("connection.backoff.ms", "10000", _RESTARTS, Type.LONG),
        group.refuse("dialect.name", "", "remove it: the URL names the database"),
        group.refuse("db.timezone", "UTC"),
        group.refuse("quote.sql.identifiers", "ALWAYS"),
        group.refuse("date.calendar.system", "LEGACY"),
    )


_DATABASE, _MODE, _CONNECTOR = Group("Database"), Group("Mode"), Group("Connector")

SOURCE = Plugin(
    "io.confluent.connect.jdbc.JdbcSourceConnector",
    Kind.SOURCE,
    (
        *connection_definitions(_DATABASE),
        _DATABASE.define(TABLES, Type.LIST, "", _M, "The tables to read, separated by commas."),
        _DATABASE.refuse("table.blacklist", "", _NAME_TABLES, Type.LIST),
        _DATABASE.refuse("table.include.list", "", f"its items are patterns; {_NAME_TABLES}", Type.LIST),
        _DATABASE.refuse("table.exclude.list", "", f"its items are patterns; {_NAME_TABLES}", Type.LIST),
        _DATABASE.refuse("schema.pattern", None, f"{_NAME_TABLES}, with their schema: sales.orders"),
        _DATABASE.refuse("catalog.pattern", None, _NAME_TABLES),
        _DATABASE.define(
            "numeric.mapping",
            documentation="How numbers with decimals are written: JSON has numbers, Avro decimals.",
            accepted=("none", "best_fit"),
        ),
        _DATABASE.refuse("numeric.precision.mapping", "false", kind=Type.BOOLEAN),
        _MODE.define(
            MODE,
            importance=_H,
            documentation="bulk reads each table once; the other modes follow it by a column that increases.",
            required=True,
            check=one_of(_BULK, _TIMESTAMP, _INCREMENTING, _BOTH),
            recommended=(_BULK, _TIMESTAMP, _INCREMENTING, _BOTH),
        ),
        _MODE.define(INCREMENTING, Type.STRING, "", _M, "The column that increases with each new row."),
        _MODE.define(TIMESTAMP, Type.LIST, "", _M, "The column with the time of the last change of a row."),
        _MODE.refuse("timestamp.initial", None, "the whole table is read first", Type.LONG),
        _MODE.define(
            "validate.non.null",
            Type.BOOLEAN,
            "true",
            documentation="Whether the column must not be null. PostgreSQL rows with null are read, others are not.",
        ),
        _MODE.define(QUERY, Type.STRING, "", _M, "A query in place of tables. topic.prefix is then its topic."),
        _MODE.refuse("query.suffix", ""),
        _MODE.refuse("query.retry.attempts", "-1", _RESTARTS, Type.INT),
        _MODE.refuse("transaction.isolation.mode", "DEFAULT"),
        _CONNECTOR.define(
            PREFIX,
            importance=_H,
            documentation="What stands before the name of a table in the name of its topic.",
            required=True,
        ),
        _CONNECTOR.define(
            POLL_MS,
            Type.INT,
            "5000",
            _H,
            "How often tables are looked at, in milliseconds: whole seconds.",
            check=at_least(1),
        ),
        _CONNECTOR.refuse("batch.max.rows", "1000", "remove it: Spark divides the rows into tasks", Type.INT),
        _CONNECTOR.refuse("table.poll.interval.ms", "60000", f"tables are fixed; {_NAME_TABLES}", Type.LONG),
        _CONNECTOR.refuse("table.types", "TABLE", kind=Type.LIST),
        _CONNECTOR.refuse(
            "timestamp.delay.interval.ms", "0", "remove it: rows that are committed late are read anyway", Type.LONG
        ),
        _CONNECTOR.refuse("timestamp.granularity", "connect_logical", "times are ISO 8601 in JSON"),
    ),
    _translate,
)
