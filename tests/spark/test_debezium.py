"""Events of `postgres_changes` next to those of Debezium's connector, from the same changes of one server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from bench.cache import Unavailable
from bench.debezium import debezium_classpath, debezium_config
from bench.kafka_connect import KafkaConnect, connect_classpath
from tests.spark.change_workload import MARKER_ID, Workload
from tests.spark.conftest import require_spark
from tests.spark.event_difference import DIFFERENCES, Event, compare, find_difference
from tests.spark.one_run import run_pipeline
from tests.spark.waiting import wait_until

from tailrace.records.record import Record
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

require_spark()
pytestmark = pytest.mark.slow

OURS, THEIRS = "debezium-ours", "debezium-theirs"
PIPELINE = """\
from tailrace.pipeline import flow, postgres_changes, topic

@flow(source=postgres_changes("{url}", tables={tables}, slot="{slot}", name="shop", format="records"),
      sink=topic("{topic}", format="raw"))
def records(changes):
    return changes
"""
# All tables go to one topic, in which the order of all changes can be seen.
ONE_TOPIC = {
    "transforms": "route",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": r"shop\.public\..*",
    "transforms.route.replacement": THEIRS,
}


class Events(NamedTuple):
    """The events of both connectors: those of the snapshot by table and row, and the changes in their order."""

    snapshot: list[tuple[Event, Event]]
    theirs: list[Event]
    ours: list[Event]


def _event(record: Record) -> Event:
    headers = [(name, json.loads(value or b"null")) for name, value in record.headers]
    return Event(json.loads(record.key or b"null"), json.loads(record.value or b"null"), headers)


def _is_marker(record: Record) -> bool:
    return bool(json.loads(record.key or b"null") == {"id": MARKER_ID})


def _row(event: Event) -> str:
    """Return the text by which a row of the snapshot is found in both topics."""
    assert event.value is not None
    after = event.value["after"]
    return json.dumps([event.table, after.get("id"), after.get("email"), after.get("a")])


@pytest.fixture(scope="module")
def database(postgres_server: Any) -> Iterator[Any]:
    """A connection to a database of its own."""
    import psycopg

    name = f"debezium_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres_server.url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
        with psycopg.connect(postgres_server.url_of(name), autocommit=True) as connection:
            yield connection
        server.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name]
        )
        server.execute(
            "SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin WHERE roname = 'elsewhere'"
        )
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="module")
def events(
    spark: SparkSession, broker: Broker, postgres_server: Any, database: Any, tmp_path_factory: pytest.TempPathFactory
) -> Events:
    """Has both connectors read a snapshot, and then changes."""
    try:
        connect_classpath()
        plugin = debezium_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))
    url = postgres_server.url_of(database.info.dbname)
    workload = Workload(database)
    workload.create()
    path = _write_pipeline(tmp_path_factory.mktemp("debezium"), url, workload.tables)
    for topic in (OURS, THEIRS):
        broker.create_topic(topic)
    with KafkaConnect(broker.bootstrap_servers, plugins=[plugin]) as connect:
        connect.create("changes", debezium_config(url, workload.tables, "shop", "theirs") | ONE_TOPIC)
        run_pipeline(spark, broker, path)
        row_count = len(broker.consume(OURS))
        wait_until(lambda: len(broker.consume(THEIRS)) >= row_count, timeout_s=300, why=connect.log_text)
        workload.change()
        run_pipeline(spark, broker, path)
        wait_until(lambda: _is_marker(broker.consume(THEIRS)[-1]), timeout_s=300, why=connect.log_text)
    theirs, ours = ([_event(record) for record in broker.consume(topic)] for topic in (THEIRS, OURS))
    snapshots = [sorted((each for each in found if each.op == "r"), key=_row) for found in (theirs, ours)]
    assert [_row(event) for event in snapshots[0]] == [_row(event) for event in snapshots[1]]
    pairs = list(zip(*snapshots, strict=True))
    return Events(pairs, *([each for each in found if each.op != "r"] for found in (theirs, ours)))


def _write_pipeline(folder: Path, url: str, tables: list[str]) -> Path:
    path = folder / "changes.py"
    path.write_text(PIPELINE.format(url=url, tables=tables, slot="ours", topic=OURS))
    return path


def _pairs(events: Events) -> list[tuple[Event, Event]]:
    """Return the events side by side.

    For a table without a key, Debezium follows each delete by a record without key and value, which says nothing.
    """
    theirs = [event for event in events.theirs if event.key is not None or event.value is not None]
    assert len(theirs) < len(events.theirs)
    assert [event.op for event in theirs] == [event.op for event in events.ours]
    return [*events.snapshot, *zip(theirs, events.ours, strict=True)]


def test_events_differ_only_where_they_should(events: Events) -> None:
    found = [mismatch for theirs, ours in _pairs(events) for mismatch in compare(theirs, ours)]
    assert not [str(each) for each in found if find_difference(each) is None]


def test_each_difference_still_exists(events: Events) -> None:
    """A release of Debezium may mend what differs; its line in the table and in the manual should go then."""
    found = [mismatch for theirs, ours in _pairs(events) for mismatch in compare(theirs, ours)]
    needed = {id(find_difference(each)) for each in found}
    assert not [each.reason for each in DIFFERENCES if id(each) not in needed]


def test_the_workload_has_every_kind_of_event(events: Events) -> None:
    assert {event.op for event in events.ours} == {"c", "u", "d", "t", None}
    assert {header for event in events.ours for header, _ in event.headers} == {
        "__debezium.newkey",
        "__debezium.oldkey",
    }
    assert [event.value["source"]["origin"] for event in events.ours if event.value].count("elsewhere") == 1
