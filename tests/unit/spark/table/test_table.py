"""Tables: their declaration, the newest row of each key, and what a worker reads of the topic."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tailrace.client.topic_partition import TopicPartition
from tailrace.pipeline import PipelineError, flow, table, topic
from tailrace.spark.connector.error_policy import ErrorPolicy, OnError
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.table import task as module
from tailrace.spark.connector.table.json_row import NotARow, key_decoder, row_decoder
from tailrace.spark.connector.table.newest_row import NewestRows
from tailrace.spark.connector.table.task import TablePart, TableTask
from tailrace.spark.error import MalformedValue, RetriableBrokerError
from tailrace.spark.option import parse_source_options
from tailrace.spark.pipeline.graph import draw_flows
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import plan_of
from tailrace.spark.plan import OffsetRange
from tailrace.spark.position import Offsets

ORDERS = topic("orders", schema="customer string, cents bigint")
CUSTOMERS = table("customers", key="customer", schema="city string")


def join(orders: Any, customers: Any) -> Any:
    return orders.join(customers, "customer")


# --- the declaration


def test_a_table_is_a_source_beside_a_stream(tmp_path: Path) -> None:
    declared = flow(source=[ORDERS, CUSTOMERS], sink=topic("out"))(join)
    assert [str(source) for source in declared.sources] == ["topic orders", "table customers"]
    assert draw_flows([declared])[0] == "topic orders"
    assert "topic customers" in draw_flows([declared])
    plan = plan_of(declared, {"bootstrap.servers": "x:1"}, tmp_path, tmp_path)
    assert plan.topics_read == {("x:1", "orders"), ("x:1", "customers")}
    with pytest.raises(PipelineError, match="a flow needs a source that is a stream, which is joined with table"):
        flow(source=CUSTOMERS, sink=topic("out"))(lambda rows: rows)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("", {}, "table(): '' is not the name of a topic"),
        ("a,b", {}, "table(): 'a,b' is not the name of a topic"),
        ("a", {"key": ""}, "table('a'): key='' is not the name of a column"),
        ("a", {"key": ["x", "y"]}, "table('a'): key=['x', 'y'] is not the name of a column"),
        ("a", {"schema": None}, "table('a'): schema= is missing"),
        (
            "a",
            {"schema": 7},
            "table('a'): schema=7 is not a schema such as \"user string, at timestamp\" or a StructType",
        ),
        (
            "a",
            {"options": {"subscribe": "b"}},
            "table('a'): option subscribe is set by the pipeline; name the topics in ",
        ),
    ],
)
def test_a_wrong_declaration_is_refused(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError) as refused:
        table(name, **{"key": "k", "schema": "x int", **given})
    assert str(refused.value).startswith(message)


def test_yaml_joins_a_table_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text("""
name: cities
sources:
  orders: {connector: topic, name: orders, schema: "customer string, cents bigint"}
  customers: {connector: table, name: customers, key: customer, schema: "city string"}
sql: SELECT city, cents FROM orders JOIN customers USING (customer)
sink: {connector: topic, name: cities}
""")
    (declared,) = load_pipeline(path).flows
    assert [str(source) for source in declared.sources] == ["topic orders", "table customers"]


# --- rows


def test_the_newest_row_of_each_key_counts() -> None:
    rows = NewestRows(pa.schema([("k", pa.string()), ("n", pa.int64())]))
    rows.change({b"a": {"k": "a", "n": 1}, b"b": {"k": "b", "n": 2}})
    rows.change({b"a": {"k": "a", "n": 3}, b"c": {"k": "c"}, b"gone": None})
    rows.change({b"b": None})
    assert rows.table().to_pylist() == [{"k": "a", "n": 3}, {"k": "c", "n": None}]
    assert len(rows) == 2


def test_many_changes_leave_the_rows_in_few_pieces() -> None:
    rows = NewestRows(pa.schema([("n", pa.int64())]))
    truth: dict[bytes, int] = {}
    for number in range(1000):
        key = b"%d" % (number * 7 % 100)
        rows.change({key: {"n": number}})
        truth[key] = number
        if number % 11 == 0:
            rows.change({b"%d" % (number % 100): None})
            truth.pop(b"%d" % (number % 100), None)
        assert rows.table().column(0).num_chunks < 70
    assert sorted(row["n"] for row in rows.table().to_pylist()) == sorted(truth.values())


COLUMNS = pa.schema(
    [
        ("text", pa.string()),
        ("small", pa.int8()),
        ("real", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("is_new", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("raw", pa.binary()),
        ("inner", pa.struct([("x", pa.int32())])),
        ("many", pa.list_(pa.int32())),
        ("by_name", pa.map_(pa.string(), pa.int32())),
    ]
)


def test_values_are_decoded_as_spark_does() -> None:
    decode = row_decoder(COLUMNS)
    row = decode(
        b'{"text": {"a": 1.5}, "small": 7, "real": 2, "price": 1.25, "is_new": true, "day": "2026-11-16",'
        b' "at": "2026-11-16T10:00:00.5+01:00", "local": 1.5, "raw": "YWI=", "inner": {"x": 1, "y": 2},'
        b' "many": [1, null], "by_name": {"a": 1}, "other": 0}'
    )
    assert row == {
        "text": '{"a":1.5}',
        "small": 7,
        "real": 2.0,
        "price": Decimal("1.25"),
        "is_new": True,
        "day": date(2026, 11, 16),
        "at": datetime(2026, 11, 16, 9, 0, 0, 500_000, tzinfo=UTC),
        "local": datetime(1970, 1, 1, 0, 0, 1, 500_000),
        "raw": b"ab",
        "inner": {"x": 1},
        "many": [1, None],
        "by_name": [("a", 1)],
    }
    assert pa.Table.from_pylist([row, decode(b"{}")], schema=COLUMNS).num_rows == 2


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[1]",
        b'"x"',
        b'{"small": 300}',
        b'{"small": "7"}',
        b'{"small": true}',
        b'{"real": "x"}',
        b'{"price": "x"}',
        b'{"is_new": 1}',
        b'{"day": "16.11.2026"}',
        b'{"at": "soon"}',
        b'{"at": true}',
        b'{"raw": "?"}',
        b'{"inner": 1}',
        b'{"many": {}}',
        b'{"by_name": []}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_value_that_does_not_fit_is_no_row(value: bytes) -> None:
    with pytest.raises(NotARow):
        row_decoder(COLUMNS)(value)


def test_keys_are_texts_or_integers() -> None:
    assert key_decoder(pa.string(), "k")(b"ab") == "ab"
    assert key_decoder(pa.int16(), "k")(b"-7") == -7
    for wrong in (b"x", b"40000", b"\xff"):
        with pytest.raises(NotARow):
            key_decoder(pa.int16(), "k")(wrong)
    with pytest.raises(PipelineError, match="the key is column k, whose type is double"):
        key_decoder(pa.float64(), "k")


# --- a worker


class Brokers:
    """A topic in memory: records as (key, value), by partition; the first ones may be deleted."""

    def __init__(self, partition_count: int = 1) -> None:
        self.records: list[list[tuple[bytes | None, bytes | None]]] = [[] for _ in range(partition_count)]
        self.first = [0] * partition_count
        self.ranges: list[OffsetRange] = []
        self.exists = True

    def partition_counts(self, _topics: Sequence[str]) -> dict[str, int]:
        return {"customers": len(self.records)} if self.exists else {}

    def edges(self, partitions: Sequence[TopicPartition]) -> tuple[Offsets, Offsets]:
        return (
            {each: self.first[each.partition] for each in partitions},
            {each: len(self.records[each.partition]) for each in partitions},
        )

    def read(self, wanted: Sequence[OffsetRange], columns: Sequence[str], **_: Any) -> Iterator[pa.RecordBatch]:
        self.ranges += wanted
        for each in wanted:
            found = enumerate(self.records[each.partition][each.start : each.end], each.start)
            rows = [{"key": k, "value": v, "partition": each.partition, "offset": n} for n, (k, v) in found]
            kinds = [("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32()), ("offset", pa.int64())]
            yield pa.RecordBatch.from_pylist(rows, schema=pa.schema(kinds)).select(list(columns))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    found = Brokers(3)
    monkeypatch.setattr(module, "topic_io", lambda _: found)
    return found


TASK = TableTask(
    "customers",
    parse_source_options({"kafka.bootstrap.servers": "x:1", "subscribe": "customers"}).for_batch(),
    pa.schema([("customer", pa.string()), ("city", pa.string())]),
    "customer",
    2,
    Rejects("orders"),
)


def cities(part: TablePart) -> dict[str, str]:
    return {row["customer"]: row["city"] for row in part.refresh().to_pylist()}


def test_a_worker_reads_only_what_is_new(brokers: Brokers) -> None:
    part = TablePart(TASK, 0)
    brokers.records[0] = [(b"ann", b'{"city": "Rome"}'), (b"bob", b'{"city": "Oslo"}'), (b"ann", b'{"city": "Bonn"}')]
    brokers.records[1] = [(b"cid", b'{"city": "of part 1"}')]
    brokers.records[2] = [(b"dan", b'{"city": "Kiel"}')]
    assert cities(part) == {"ann": "Bonn", "bob": "Oslo", "dan": "Kiel"}
    brokers.ranges.clear()
    assert cities(part) == {"ann": "Bonn", "bob": "Oslo", "dan": "Kiel"}
    assert brokers.ranges == []
    brokers.records[0] += [(b"bob", None), (b"eve", b"{}")]
    assert cities(part) == {"ann": "Bonn", "dan": "Kiel", "eve": None}
    assert brokers.ranges == [OffsetRange("customers", 0, 3, 5)]


def test_a_worker_that_may_have_missed_deletions_starts_anew(brokers: Brokers) -> None:
    now_s = [0.0]
    part = TablePart(TASK, 1, clock=lambda: now_s[0])
    brokers.records[1] = [(b"ann", b'{"city": "Rome"}'), (b"bob", b'{"city": "Oslo"}')]
    assert len(cities(part)) == 2
    brokers.records[1] = [(None, None), (b"bob", b'{"city": "Oslo"}')]  # compaction has removed ann and her deletion
    brokers.first[1] = 1
    assert len(cities(part)) == 2
    now_s[0] = 601.0
    assert cities(part) == {"bob": "Oslo"}
    brokers.records[1], brokers.first[1] = [(b"eve", b'{"city": "Bern"}')], 0  # the topic was made anew
    assert cities(part) == {"eve": "Bern"}
    brokers.exists = False
    with pytest.raises(RetriableBrokerError, match="table customers: there is no topic customers"):
        part.refresh()


def test_errors_decides_about_records_that_do_not_fit(brokers: Brokers) -> None:
    brokers.records[0] = [(b"ann", b'{"city": "Rome"}'), (b"ann", b"no JSON"), (None, b"{}")]
    part = TablePart(TASK, 0)
    for _ in range(2):  # it stays wrong
        with pytest.raises(MalformedValue, match=r"customers-0 offset 1: value is not valid JSON .* \(no JSON\)"):
            part.refresh()
    skipping = TablePart(replace(TASK, rejects=Rejects("orders", ErrorPolicy(OnError.SKIP))), 0)
    assert cities(skipping) == {"ann": "Rome"}


def test_a_process_keeps_a_bounded_number_of_parts(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kept", {})
    brokers.records[0] = [(b"ann", b'{"city": "Rome"}')]
    numbers = pa.RecordBatch.from_pydict({"id": [0]})
    assert sum(batch.num_rows for batch in TASK.read(iter([numbers]))) == 1
    brokers.ranges.clear()
    assert sum(batch.num_rows for batch in TASK.read(iter([numbers]))) == 1
    assert brokers.ranges == []
    first = module.find_part(TASK, 0)
    for number in range(1, 40):
        module.find_part(TASK, number)
    assert module.find_part(TASK, 0) is not first
    assert len(module._kept) == 32
