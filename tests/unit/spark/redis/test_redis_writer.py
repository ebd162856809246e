"""What tasks write to Redis, alone and in a cluster, and the script that commits a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from tests.redis_server import RedisServer, started_server

from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.error_policy import ErrorPolicy, OnError
from tailrace.spark.connector.redis import writer
from tailrace.spark.connector.redis.connection import RedisSettings
from tailrace.spark.connector.redis.frame import KEY
from tailrace.spark.connector.redis.redis import redis
from tailrace.spark.connector.redis.writer import HashTask, StreamTask, commit, notes_key
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.error import ConnectorError, RetriableConnectorError, WriteError
from tailrace.spark.task_place import TaskPlace

pytestmark = pytest.mark.slow

SKIP = Rejects("orders", ErrorPolicy(OnError.SKIP))
STOP = Rejects("orders")


@pytest.fixture(scope="module", params=[False, True], ids=["alone", "cluster"])
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with started_server(is_cluster=request.param) as server:
        yield server


@pytest.fixture
def settings(server: RedisServer) -> RedisSettings:
    with server.client() as client:
        client.flushall()
    return RedisSettings(server.url, server.is_cluster)


@pytest.fixture(autouse=True)
def _in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "task_place", lambda: TaskPlace("query-1", "run", 0, 0))


def written(task: StreamTask | HashTask, *rows: dict[str, Any]) -> list[Any]:
    """Write rows as a task does, and return what it tells."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: pa.array([row.get(name) for row in rows], pa.binary()) for name in names}
    batches = [pa.RecordBatch.from_pydict(columns)] if rows else []
    return [SimpleNamespace(**row) for batch in task(iter(batches)) for row in batch.to_pylist()]


def numbers(server: RedisServer, stream: str) -> list[int]:
    with server.client() as client:
        return [int(fields[b"n"]) for _, fields in client.xrange(stream)]


def row(number: int) -> dict[str, Any]:
    return {"n": str(number).encode(), "none": None}


@pytest.mark.parametrize("key", ["orders", "a{b}c", "a{b", "{a}{b}"])
def test_keys_of_a_batch_are_in_the_slot_of_the_stream(key: str, server: RedisServer) -> None:
    if server.is_cluster:
        with server.client() as client:
            slots = {client.execute_command("CLUSTER", "KEYSLOT", each) for each in (key, notes_key(key))}
        assert len(slots) == 1


def test_a_batch_is_committed_once(server: RedisServer, settings: RedisSettings) -> None:
    task = StreamTask(settings, STOP, "orders", is_staged=True)
    first = written(task, row(1), row(2)) + written(task, row(3))
    assert numbers(server, "orders") == []
    assert commit(task, "orders", 0, first) == 3
    assert commit(task, "orders", 0, first) == 0
    # Spark divides the repeated batch in another way.
    assert commit(task, "orders", 0, written(task, row(1), row(2), row(3))) == 0
    assert commit(task, "orders", 1, written(task, row(4))) == 1
    assert commit(task, "orders", 2, written(task)[:0]) == 0
    with pytest.raises(ConnectorError, match="it goes on with batch 0, and stream orders has batch 1"):
        commit(task, "orders", 0, written(task, row(5)))
    assert numbers(server, "orders") == [1, 2, 3, 4]
    with server.client() as client:
        assert client.keys("*tailrace*") == [notes_key("orders").encode()]
        assert client.hgetall(notes_key("orders")) == {b"orders query-1": b"1"}


def test_another_batch_of_the_same_number_is_an_error(server: RedisServer, settings: RedisSettings) -> None:
    """It was left out as a repeated one, although an older copy of the checkpoint had been put back."""
    task = StreamTask(settings, STOP, "orders", is_staged=True)
    for batch_id in (0, 1):
        assert commit(task, "orders", batch_id, written(task, row(batch_id)), f"{batch_id}:a") == 1
    assert commit(task, "orders", 1, written(task, row(1)), "1:a") == 0
    with pytest.raises(ConnectorError, match="planned batch 1 anew, and stream orders has another batch 1"):
        commit(task, "orders", 1, written(task, row(2)), "1:b")
    assert numbers(server, "orders") == [0, 1]
    with server.client() as client:
        assert client.keys("*tailrace*") == [notes_key("orders").encode()]
        assert client.hgetall(notes_key("orders")) == {b"orders query-1": b"1", b"orders query-1 plan": b"1:a"}


@pytest.mark.parametrize(("batch_id", "message"), [(0, "has batch 1"), (1, "planned batch 1 anew")])
def test_a_batch_without_rows_of_an_older_checkpoint_is_an_error(
    server: RedisServer,
    settings: RedisSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batch_id: int,
    message: str,
) -> None:
    """It was not compared with the last batch of the stream, and the batch after it wrote that one's rows again."""
    task = StreamTask(settings, STOP, "orders", is_staged=True)
    commit(task, "orders", 1, written(task, row(1)), "1:a")
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id": "query-1"}')
    sink = redis(server.url, stream="orders", cluster=server.is_cluster)
    monkeypatch.setattr(writer, "write_rows", lambda rows, task, place: rows)
    none: Any = []
    for number in (batch_id, 2):
        (tmp_path / "offsets" / str(number)).write_text('v1\n{}\n{"orders":{"0":7}}')
        with pytest.raises(ConnectorError, match=message) if number == batch_id else nullcontext():
            sink.write_batch(none, number, FlowPlace("orders", tmp_path, tmp_path))


def test_notes_of_an_earlier_version_are_taken(server: RedisServer, settings: RedisSettings) -> None:
    task = StreamTask(settings, STOP, "orders", is_staged=True)
    commit(task, "orders", 0, written(task, row(0)))
    assert commit(task, "orders", 0, written(task, row(0)), "0:a") == 0
    assert commit(task, "orders", 1, written(task, row(1)), "1:a") == 1
    assert commit(task, "orders", 2, written(task, row(2))) == 1, "an earlier version goes on"
    assert commit(task, "orders", 2, written(task, row(2)), "2:a") == 0


def test_a_sink_notes_the_plan_of_its_batch(
    server: RedisServer, settings: RedisSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "offsets").mkdir()
    sink = redis(server.url, stream="orders", cluster=server.is_cluster)
    monkeypatch.setattr(writer, "write_rows", lambda rows, task, place: written(task, *rows))
    for number in (1, 2):
        (tmp_path / "offsets" / "0").write_text(f'v1\n{{}}\n{{"orders":{{"0":{number}}}}}')
        rows: Any = [row(number)]
        with pytest.raises(ConnectorError, match="batch 0 anew") if number == 2 else nullcontext():
            sink.write_batch(rows, 0, FlowPlace("orders", tmp_path, tmp_path))
    assert numbers(server, "orders") == [1]


def test_rows_that_are_gone_before_the_commit_are_not_left_out(server: RedisServer, settings: RedisSettings) -> None:
    task = StreamTask(settings, STOP, "orders", is_staged=True)
    staged = written(task, row(1)) + written(task, row(2))
    with server.client() as client:
        assert 0 < client.ttl(staged[1].key) <= writer.STAGED_TTL_S
        client.delete(staged[1].key)
    with pytest.raises(RetriableConnectorError, match="STAGED rows of the batch have expired"):
        commit(task, "orders", 0, staged)
    assert numbers(server, "orders") == []


def test_a_stream_is_trimmed_and_at_least_once_writes_it_at_once(server: RedisServer, settings: RedisSettings) -> None:
    written(StreamTask(settings, STOP, "orders", is_staged=False), row(1), row(2))
    assert numbers(server, "orders") == [1, 2]
    task = StreamTask(settings, STOP, "short", is_staged=True, length_max=100)
    commit(task, "orders", 0, written(task, *map(row, range(1500))))
    assert 100 <= len(numbers(server, "short")) < 1500


def test_hashes_are_replaced_and_refused_rows_counted(server: RedisServer, settings: RedisSettings) -> None:
    with server.client() as client:
        client.set("order:7", "text")
    task = HashTask(settings, SKIP, ttl_s=100)
    found = written(
        task,
        {KEY: b"order:1", "id": b"1", "cents": b"5"},
        {KEY: b"order:7", "id": b"7", "cents": b"5"},
        {KEY: None, "id": None, "cents": b"5"},
        {KEY: b"order:2", "id": b"2", "cents": b"5"},
    )
    reasons = {one.reason: one.row_count for one in found if one.reason is not None}
    assert reasons == {"the key holds another kind of value than a hash": 1, "a column of the key is null": 1}
    written(task, {KEY: b"order:1", "id": b"1", "cents": None})
    with server.client() as client:
        assert client.hgetall("order:1") == {b"id": b"1"}
        assert client.hgetall("order:2") == {b"id": b"2", b"cents": b"5"}
        assert 0 < client.ttl("order:2") <= 100
    with pytest.raises(WriteError, match="a column of the key is null"):
        written(HashTask(settings, STOP), {KEY: None, "id": None, "cents": b"5"})
    with pytest.raises(WriteError, match="all columns are null"):
        written(StreamTask(settings, STOP, "orders", is_staged=False), {"n": None})
