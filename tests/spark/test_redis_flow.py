"""Flows from topics to Redis and back, on a real server that is killed in the middle."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.redis_server import PASSWORD, RedisServer, started_server
from tests.spark.one_run import run_pipeline

from tailrace.client.fetch.table import read_table
from tailrace.client.produce.producer import Producer
from tailrace.spark.connector.redis import writer
from tailrace.spark.connector.redis.writer import notes_key
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.plan import checkpoints_of
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [{"user": f"u{number % 5}", "cents": number, "at": "2026-01-02T03:04:05.000006Z"} for number in range(20)]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with started_server() as server:
        yield server


def send(broker: Broker, topic: str, rows: list[dict[str, Any]]) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for row in rows:
            producer.send(topic, json.dumps(row).encode(), row["user"].encode())


def cents(server: RedisServer, stream: str) -> list[int]:
    with server.client() as client:
        return sorted(int(fields[b"cents"]) for _, fields in client.xrange(stream))


def interrupted(server: RedisServer, commit: Callable[..., int], outcomes: list[str], *args: Any) -> int:
    """Kill the server before the first commit, and after the second one, whose answer is lost."""
    outcome = outcomes.pop(0) if outcomes else ""
    if outcome == "after":
        commit(*args)
    if outcome:
        server.kill()
    try:
        return commit(*args)
    finally:
        if outcome:
            server.start()


def check_way_back(
    spark: SparkSession, broker: Broker, server: RedisServer, stream: str, topic: str, folder: Path
) -> None:
    """Read the stream into a topic, by a schema, and find the same rows."""
    file = folder / "redis_back.py"
    file.write_text(f"""
from tailrace.pipeline import flow, redis, topic

orders = redis("{server.url}", stream="{stream}", schema="user string, cents bigint, at timestamp", include="stream")

@flow(source=orders, sink=topic("{topic}"))
def to_topic(orders): return orders.withColumn("at", orders.at.cast("string"))
""")
    run_pipeline(spark, broker, file)
    found = [json.loads(value) for value in read_table(broker.bootstrap_servers, topic).column("value").to_pylist()]
    assert Counter(row["cents"] for row in found) == Counter(range(20))
    assert {row["at"] for row in found} == {"2026-01-02 03:04:05.000006"}
    assert {row["stream"] for row in found} == {stream}


@pytest.mark.slow
def test_rows_arrive_once_though_the_server_is_killed_and_the_batch_repeated(
    spark: SparkSession,
    broker: Broker,
    server: RedisServer,
    new_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, back = new_topic(2), new_topic()
    send(broker, source, ROWS)
    file = tmp_path / "redis_flows.py"
    file.write_text(f"""
from tailrace.pipeline import flow, redis, topic

orders = topic("{source}", schema="user string, cents bigint, at timestamp")

@flow(source=orders, sink=redis("{server.url}", stream="{source}"))
def to_stream(orders): return orders

@flow(source=orders, sink=redis("{server.url}", hash="user:{{user}}", ttl=1000), mode="update")
def to_hash(orders): return orders.groupBy("user").sum("cents").withColumnRenamed("sum(cents)", "total")
""")
    outcomes = ["before", "after"]
    monkeypatch.setattr(writer, "commit", partial(interrupted, server, writer.commit, outcomes))
    running = run_pipeline(spark, broker, file)
    assert outcomes == []
    assert running.tallies["to_stream"].state == "finished"
    assert cents(server, source) == list(range(20))
    with server.client() as client:
        _, fields = client.xrange(source, count=1)[0]
        assert set(fields) == {b"user", b"cents", b"at"}
        assert fields[b"at"] == b"2026-01-02T03:04:05.000006Z"
        assert client.hgetall("user:u1") == {b"user": b"u1", b"total": b"34"}
        assert 0 < client.ttl("user:u1") <= 1000
        batch, plan = client.hgetall(notes_key(source)).values()
        assert batch == b"0"
        assert plan.startswith(b"0:")
        lost = set(client.keys("*:tailrace:*")) - {notes_key(source).encode()}
        assert all(client.ttl(key) > 0 for key in lost)  # the rows of the first attempt expire

    check_way_back(spark, broker, server, source, back, tmp_path)
    assert PASSWORD not in str(running.snapshot())


@pytest.mark.slow
def test_a_field_that_does_not_fit_is_named_and_a_refused_row_counted(
    spark: SparkSession, broker: Broker, server: RedisServer, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, dead, refused = new_topic(), new_topic(), new_topic()
    send(broker, source, ROWS[:3])
    with server.client() as client:
        client.set("order:1", "not a hash")
        client.xadd("wrong", {"cents": "many"})
    file = tmp_path / "redis_refused.py"
    file.write_text(f"""
from tailrace.pipeline import flow, redis, topic

@flow(source=topic("{source}", schema="user string, cents bigint"), errors={{"to": "{refused}"}},
      sink=redis("{server.url}", hash="order:{{cents}}"))
def to_hash(orders): return orders
""")
    running = run_pipeline(spark, broker, file)
    with server.client() as client:
        assert [client.type(f"order:{number}") for number in range(3)] == [b"hash", b"string", b"hash"]
    assert running._plans[0].place.refused.counts() == {"the key holds another kind of value than a hash": 1}
    (letter,) = read_table(broker.bootstrap_servers, refused).to_pylist()
    assert json.loads(letter["value"]) == ROWS[1]  # the record, of which the flow has used some fields
    assert {each["key"]: each["value"] for each in letter["headers"]}["__connect.errors.offset"] == b"1"

    file = tmp_path / "redis_malformed.py"
    file.write_text(f"""
from tailrace.pipeline import flow, redis, topic

@flow(source=redis("{server.url}", stream="wrong", schema="cents bigint"), sink=topic("{source}"))
def malformed(orders): return orders
""")
    with pytest.raises(FlowError, match=r"id \d+-0 field cents \(bigint\): the field does not fit"):
        run_pipeline(spark, broker, file)
    file.write_text(file.read_text().replace("@flow(", f'@flow(errors={{"to": "{dead}"}}, '))
    run_pipeline(spark, broker, file)
    assert read_table(broker.bootstrap_servers, dead).column("value").to_pylist() == [b'{"cents":"many"}']
    kept = [path.read_bytes() for path in checkpoints_of(file).rglob("*") if path.is_file()]
    assert any(b"wrong" in content for content in kept)  # the position in the stream of this name
    assert not any(PASSWORD.encode() in content for content in kept)
