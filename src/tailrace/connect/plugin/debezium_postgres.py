"""Debezium's connector for PostgreSQL: the changes of tables, each in a topic of its own."""

import re
from typing import Any

from tailrace.connect.plugin.base import Group, Importance, Kind, Plugin, Translation, Type
from tailrace.connect.plugin.check import at_least, not_empty
from tailrace.connect.plugin.converter import Converter, Format, find_converter
from tailrace.connect.plugin.document import (
    finish,
    flow_name,
    producer_options,
    read_errors,
    read_every,
    select,
    sql_text,
)
from tailrace.connect.plugin.jdbc_url import make_postgres_url
from tailrace.connect.plugin.setting import Settings
from tailrace.spark.connector.postgres_changes.table_form import topic_name

HOST = "database.hostname"
PORT = "database.port"
USER = "database.user"
PASSWORD = "database.password"  # noqa: S105 - the name of a setting
DATABASE = "database.dbname"
PREFIX = "topic.prefix"
TABLES = "table.include.list"
SLOT = "slot.name"
PUBLICATION = "publication.name"
SNAPSHOT = "snapshot.mode"
TOMBSTONES = "tombstones.on.delete"
SKIPPED = "skipped.operations"
BATCH_SIZE = "max.batch.size"
POLL_MS = "poll.interval.ms"
DECIMALS = "decimal.handling.mode"
INTERVALS = "interval.handling.mode"

_SSL = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword")
_SNAPSHOTS = {"initial": "initial", "never": "never", "no_data": "never"}
_TABLE = re.compile(r"(?P<schema>[\w$]+)\\?\.(?P<table>[\w$]+)")
_OPERATIONS = ("c", "u", "d", "t")
_JSON = Converter(Format.JSON)
_USE_SQL = "use connector.class tailrace.Source with postgres_changes, and sql"
_H, _M = Importance.HIGH, Importance.MEDIUM


def _translate(settings: Settings) -> Translation:
    tables = _read_tables(settings)
    for which in ("key", "value"):
        find_converter(settings, which, _JSON, (Format.JSON,))
    for name in (DECIMALS, INTERVALS):
        if not settings.is_given(name):
            settings.refuse(name, "its default in Debezium is not supported; set it to string")
    topics = [topic_name(settings.text(PREFIX), table) for table in tables]
    options = producer_options(settings)
    document = {
        "name": flow_name(settings.name),
        "source": _read_source(settings, [f"{schema}.{table}" for schema, table in tables]),
        **_read_sql(settings),
        "sink": {
            "connector": "topic",
            "name": topics if len(topics) != 1 else topics[0],
            "format": "raw",
            **({"options": options} if options else {}),
        },
        **_read_pace(settings),
        **read_errors(settings),
    }
    return finish(settings, Kind.SOURCE, [document], topics)


def _read_tables(settings: Settings) -> list[tuple[str, str]]:
    """Return the tables; adds a problem for a pattern of several, because each has a topic that must be known."""
    found = []
    for item in settings.items(TABLES):
        match = _TABLE.fullmatch(item)
        if match is None:
            settings.refuse(TABLES, f"{item!r} is not the name of one table, such as public.orders; name each table")
        else:
            found.append((match["schema"], match["table"]))
    if not settings.items(TABLES):
        settings.refuse(TABLES, "name the tables, such as public.orders")
    return found


def _read_source(settings: Settings, tables: list[str]) -> dict[str, Any]:
    ssl = {name: settings.text(f"database.{name}") for name in _SSL}
    url = make_postgres_url(
        f"{settings.text(HOST)}:{settings.number(PORT)}",
        settings.text(DATABASE),
        settings.text(USER),
        settings.text(PASSWORD),
        {name: text for name, text in ssl.items() if text},
    )
    source: dict[str, Any] = {
        "connector": "postgres_changes",
        "url": url,
        "tables": tables,
        "slot": settings.text(SLOT),
        "publication": settings.text(PUBLICATION),
        "snapshot": _SNAPSHOTS.get(settings.text(SNAPSHOT).lower(), "initial"),
        "format": "records",
        "name": settings.text(PREFIX),
    }
    if settings.is_given(BATCH_SIZE):
        source["batch_size"] = settings.number(BATCH_SIZE)
    if settings.is_given("snapshot.fetch.size"):
        source["chunk_size"] = settings.number("snapshot.fetch.size")
    return source


def _read_sql(settings: Settings) -> dict[str, str]:
    """Return the query that leaves out what the settings leave out."""
    skipped = [item.lower() for item in settings.items(SKIPPED)]
    if unknown := [item for item in skipped if item not in (*_OPERATIONS, "none")]:
        settings.refuse(SKIPPED, f"{unknown[0]!r} is not one of c, u, d, t and none")
    conditions = []
    if names := [item for item in skipped if item in _OPERATIONS]:
        operations = ", ".join(map(sql_text, names))
        kept = f"get_json_object(value, '$.op') NOT IN ({operations})"
        # A record without a value follows a delete.
        conditions.append(f"{kept}" if "d" in names else f"(value IS NULL OR {kept})")
    if not settings.flag(TOMBSTONES):
        conditions.append("value IS NOT NULL")
    return {"sql": select("*", where=" AND ".join(conditions))} if conditions else {}


def _read_pace(settings: Settings) -> dict[str, Any]:
    every = read_every(settings)
    if settings.is_given(POLL_MS) and not every:
        return {"every": f"{settings.number(POLL_MS)} milliseconds"}
    return every


_CONNECTION, _TOPICS, _SNAPSHOT, _EVENTS = (
    Group(name) for name in ("Connection", "Connector", "Connector - snapshot", "Events")
)

SOURCE = Plugin(
    "io.debezium.connector.postgresql.PostgresConnector",
    Kind.SOURCE,
    (
        _CONNECTION.define(
            HOST, importance=_H, documentation="The host of the server.", required=True, check=not_empty
        ),
        _CONNECTION.define(PORT, Type.INT, "5432", _H, "The port of the server.", check=at_least(1)),
        _CONNECTION.define(USER, importance=_H, documentation="The user, with the attribute REPLICATION."),
        _CONNECTION.define(PASSWORD, Type.PASSWORD, None, _H, "The password."),
        _CONNECTION.define(DATABASE, importance=_H, documentation="The database.", required=True, check=not_empty),
        *(
            _CONNECTION.define(
                f"database.{name}",
                Type.PASSWORD if name == "sslpassword" else Type.STRING,
                None,
                _M,
                f"The parameter {name} of PostgreSQL's client.",
            )
            for name in _SSL
        ),
        _CONNECTION.define(
            "plugin.name",
            Type.STRING,
            "decoderbufs",
            _M,
            "The plug-in of logical decoding. It is always pgoutput.",
            accepted=("pgoutput",),
            instead="pgoutput is part of PostgreSQL",
        ),
        _CONNECTION.define(SLOT, Type.STRING, "debezium", _M, "The replication slot. It is created if needed."),
        _CONNECTION.refuse("slot.drop.on.stop", "false", "drop the slot when you no longer need it", Type.BOOLEAN),
        _CONNECTION.refuse("slot.max.retries", "6", "remove it: the flow restarts by itself", Type.INT),
        _CONNECTION.refuse("slot.retry.delay.ms", "10000", "remove it: the flow restarts by itself", Type.LONG),
        _CONNECTION.refuse("slot.stream.params"),
        _CONNECTION.define(
            PUBLICATION, Type.STRING, "dbz_publication", _M, "The publication. It is created if it does not exist."
        ),
        _CONNECTION.define(
            "publication.autocreate.mode",
            Type.STRING,
            "all_tables",
            _M,
            "Which tables a publication that is created has: those that are read.",
            accepted=("filtered", "disabled"),
            instead="a publication is created for the tables that are read",
        ),
        _CONNECTION.define(
            "publish.via.partition.root",
            Type.BOOLEAN,
            "false",
            documentation="Whether changes of partitions have the name of their table.",
            accepted=("true",),
            instead="changes of partitions always have the name of their table",
        ),
        _CONNECTION.refuse("status.update.interval.ms", "10000", "remove it", Type.INT),
        _CONNECTION.refuse("xmin.fetch.interval.ms", "0", kind=Type.LONG),
        _CONNECTION.refuse("flush.lsn.source", "true", kind=Type.BOOLEAN),
        _CONNECTION.define(
            "heartbeat.interval.ms",
            Type.INT,
            "0",
            _M,
            "The interval of heartbeats. They are not needed: the slot advances while only other tables change.",
            accepted=("0",),
            instead="remove it: the slot advances while only other tables change",
        ),
        _TOPICS.define(
            PREFIX,
            importance=_H,
            documentation="What topics begin with: PREFIX.SCHEMA.TABLE.",
            required=True,
            check=not_empty,
        ),
        _TOPICS.define(TABLES, Type.LIST, None, _H, "The tables, such as public.orders. Patterns are not possible."),
        *(
            _TOPICS.refuse(name, None, f"name the tables in {TABLES}", Type.LIST)
            for name in ("table.exclude.list", "schema.include.list", "schema.exclude.list")
        ),
        *(
            _TOPICS.refuse(name, None, _USE_SQL, Type.LIST)
            for name in ("column.include.list", "column.exclude.list", "message.key.columns")
        ),
        _TOPICS.refuse("topic.delimiter", "."),
        _TOPICS.refuse("topic.naming.strategy", "io.debezium.schema.SchemaTopicNamingStrategy"),
        _SNAPSHOT.define(
            SNAPSHOT,
            Type.STRING,
            "initial",
            _M,
            "initial: the rows that exist come first. no_data or never: only changes come.",
            accepted=tuple(_SNAPSHOTS),
            recommended=("initial", "no_data"),
            instead="read the rows once with initial",
        ),
        _SNAPSHOT.define(
            "snapshot.fetch.size", Type.INT, "10240", _M, "Rows that a task of the snapshot reads.", check=at_least(1)
        ),
        _SNAPSHOT.refuse("snapshot.locking.mode", "none", "the snapshot takes no locks"),
        _SNAPSHOT.refuse("snapshot.max.threads", "1", "tasks of Spark read the snapshot", Type.INT),
        _SNAPSHOT.refuse("snapshot.select.statement.overrides", None, _USE_SQL, Type.LIST),
        _SNAPSHOT.refuse("snapshot.include.collection.list", None, "all tables have a snapshot", Type.LIST),
        _SNAPSHOT.refuse("signal.data.collection", None, "there are no signals"),
        _EVENTS.define(TOMBSTONES, Type.BOOLEAN, "true", _M, "Whether a record without a value follows a delete."),
        _EVENTS.define(
            SKIPPED, Type.LIST, "t", documentation="Operations that are left out: c, u, d, t; or none. Default: t."
        ),
        _EVENTS.define(
            DECIMALS,
            Type.STRING,
            "precise",
            _M,
            "How numbers with decimals are written: as texts.",
            accepted=("string",),
            instead="numbers with decimals are texts",
        ),
        _EVENTS.define(
            INTERVALS,
            Type.STRING,
            "numeric",
            documentation="How intervals are written: as texts in ISO 8601.",
            accepted=("string",),
            instead="intervals are texts in ISO 8601",
        ),
        _EVENTS.refuse("time.precision.mode", "adaptive"),
        _EVENTS.refuse("hstore.handling.mode", "json"),
        _EVENTS.refuse("binary.handling.mode", "bytes"),
        _EVENTS.refuse("schema.name.adjustment.mode", "none"),
        _EVENTS.refuse("field.name.adjustment.mode", "none"),
        _EVENTS.refuse("unavailable.value.placeholder", "__debezium_unavailable_value"),
        _EVENTS.refuse(
            "provide.transaction.metadata", "false", "events always have the field transaction", Type.BOOLEAN
        ),
        _EVENTS.define(
            "extended.headers.enabled",
            Type.BOOLEAN,
            "true",
            documentation="Whether records have headers about the connector.",
            accepted=("false",),
            instead="records never have these headers",
        ),
        _EVENTS.refuse("include.unknown.datatypes", "false", "such values are texts", Type.BOOLEAN),
        _EVENTS.refuse("event.processing.failure.handling.mode", "fail"),
        _EVENTS.define(BATCH_SIZE, Type.INT, "2048", _M, "About how many changes a batch has.", check=at_least(1)),
        _EVENTS.refuse("max.queue.size", "8192", "remove it", Type.INT),
        _EVENTS.define(POLL_MS, Type.LONG, "500", _M, "The interval between batches.", check=at_least(1)),
    ),
    _translate,
)
