"""Rejected rows whose records are looked up for dead letters."""

import pytest

from tailrace.client.admin.core import NewTopic
from tailrace.client.admin.sync import Admin
from tailrace.client.produce.producer import Producer
from tailrace.spark.connector import record_row
from tailrace.spark.connector.record_row import find_records, merge_places
from tailrace.spark.connector.reject import refused_row
from tailrace.spark.dead_letter import Stage, write_headers
from tailrace.spark.error import RowRefused
from tailrace.spark.plan import OffsetRange
from tailrace.spark.record_place import ORIGIN, RecordPlace, split_origin
from tailrace.testing import Broker


@pytest.mark.parametrize("text", ["orders 3 17", b"orders 3 17"])
def test_a_place_is_packed_and_unpacked(text: str | bytes) -> None:
    place = RecordPlace("orders", 3, 17)
    assert RecordPlace.unpack(text) == place
    assert place.packed == "orders 3 17"
    assert str(place) == "orders-3 offset 17"
    assert {RecordPlace.unpack(other) for other in ("", None, "web", "orders 3", "orders 3 x", b"\xff 1 2")} == {None}


def test_places_that_are_near_are_read_together() -> None:
    places = [
        RecordPlace("b", 0, 5),
        *(RecordPlace("a", 1, offset) for offset in (900, 7, 100)),
        RecordPlace("a", 2, 8),
    ]
    assert merge_places(places) == [
        OffsetRange("a", 1, 7, 101),
        OffsetRange("a", 1, 900, 901),
        OffsetRange("a", 2, 8, 9),
        OffsetRange("b", 0, 5, 6),
    ]


def test_the_origin_of_a_row_is_not_one_of_its_values() -> None:
    error = RowRefused("too long", {"id": 1, ORIGIN: "orders 0 7"})
    assert (error.row, error.origin) == ({"id": 1}, RecordPlace("orders", 0, 7))
    assert str(error) == 'too long: {"id": 1}'
    assert split_origin(["id", ORIGIN, "note"]) == (["id", "note"], [ORIGIN])


def test_a_row_becomes_its_record_unless_that_was_deleted(tailrace_broker: Broker) -> None:
    topic = "orders"
    with Admin(tailrace_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 2, configs={"retention.ms": "-1"})])
    with Producer(tailrace_broker.bootstrap_servers) as producer:
        for number in range(5):
            producer.send(topic, b"v%d" % number, b"k", [("h", None)], partition=1, timestamp_ms=100 + number)
    with Admin(tailrace_broker.bootstrap_servers) as admin:
        admin.delete_records({(topic, 1): 2})
    errors = [RowRefused("no", {"n": 1, ORIGIN: f"{topic} 1 {offset}"}) for offset in (3, 1)]
    rows = [refused_row(error) for error in (*errors, RowRefused("no", {"n": 2}))]
    client = {"kafka.bootstrap.servers": tailrace_broker.bootstrap_servers}
    unknown, known, deleted = find_records([*rows, rows[0]], client)
    assert (known.value, known.key, known.headers, known.timestamp_ms) == (b"v3", b"k", (("h", None),), 103)
    assert (known.place, known.stage, known.row) == (RecordPlace(topic, 1, 3), Stage.WRITE, b'{"n": 1}')
    assert dict(write_headers(known, "f", None))["tailrace.errors.row"] == b'{"n": 1}'
    assert (deleted.value, deleted.place, deleted.row) == (b'{"n": 1}', None, None)
    assert deleted.fault.reason == f"{topic}-1 offset 1: no"
    assert (unknown.value, unknown.place, unknown.fault.reason) == (b'{"n": 2}', None, "no")


def test_a_row_behind_the_end_of_its_partition_stays_a_row_at_once(
    tailrace_broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The lookup waited for a record to arrive at the end of the partition until its time-out was over."""
    monkeypatch.setattr(record_row, "_TIMEOUT_MS", 3_600_000)
    topic = "remade"
    with Admin(tailrace_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 2)])
    with Producer(tailrace_broker.bootstrap_servers) as producer:
        for number in range(3):
            producer.send(topic, b"v%d" % number, partition=1)
    places = [RecordPlace(topic, 1, 1), RecordPlace(topic, 1, 3), RecordPlace(topic, 1, 5), RecordPlace(topic, 0, 0)]
    rows = [refused_row(RowRefused("no", {"n": 1, ORIGIN: place.packed})) for place in places]
    known, *missing = find_records(rows, {"kafka.bootstrap.servers": tailrace_broker.bootstrap_servers})
    assert (known.value, known.place) == (b"v1", places[0])
    assert [row.value for row in missing] == [b'{"n": 1}'] * 3
    assert {row.fault.reason for row in missing} == {f"{place}: no" for place in places[1:]}
    warnings = [record.getMessage() for record in caplog.records if record.name == "tailrace.spark.pipeline"]
    assert any(f"{topic}-1 ends at offset 3" in warning and "offsets 3 to 5" in warning for warning in warnings)
    assert any(f"{topic}-0 ends at offset 0" in warning for warning in warnings)
