"""The calls that Spark makes of a Redis stream, in its order, on a real server and without a JVM."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from tests.logged import logged
from tests.redis_server import PASSWORD, RedisServer, started_server

from tailrace.spark.connector.redis.connection import RedisSettings
from tailrace.spark.error import ConnectorError, DataLossError, RetriableConnectorError

pytestmark = pytest.mark.slow

pytest.importorskip("pyspark", reason="pyspark is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with started_server() as server:
        yield server


@pytest.fixture
def stream(server: RedisServer, request: pytest.FixtureRequest) -> str:
    with server.client() as client:
        client.delete(request.node.name)
    return str(request.node.name)


class Query:
    """A query as Spark drives it: it logs the end of a batch before the batch runs."""

    def __init__(self, settings: RedisSettings, stream: str, **options: Any) -> None:
        from tailrace.spark.connector.redis.stream_reader import StreamRead

        self._read = StreamRead(settings, (stream,), **options)
        self.position: Any = None
        self.restart()

    def restart(self) -> None:
        from tailrace.spark.connector.redis.stream_reader import StreamReader

        self.reader = StreamReader(self._read)

    def plan(self) -> tuple[Any, Any]:
        start = self.position or self.reader.initialOffset()
        return start, self.reader.latestOffset(start, self.reader.getDefaultReadLimit())

    def rows(self, start: Any, end: Any) -> list[dict[str, Any]]:
        task = pickle.loads(pickle.dumps(self.reader))  # noqa: S301 - as Spark does
        return [
            row
            for partition in self.reader.partitions(start, end)
            for batch in task.read(pickle.loads(pickle.dumps(partition)))  # noqa: S301
            for row in batch.to_pylist()
        ]

    def batch(self) -> list[bytes]:
        """Run one batch, and return the field n of its rows."""
        start, end = self.plan()
        found = [dict(row["fields"])["n"] for row in self.rows(start, end)]
        self.position = end
        return found


def add(server: RedisServer, stream: str, *numbers: int) -> None:
    with server.client() as client:
        for number in numbers:
            client.xadd(stream, {"n": number})


def test_batches_have_each_entry_once_and_can_be_repeated(server: RedisServer, stream: str) -> None:
    query = Query(RedisSettings(server.url), stream, batch_size=3)
    assert query.batch() == []
    add(server, stream, 1, 2, 3, 4)
    start, end = query.plan()
    first = query.rows(start, end)
    add(server, stream, 5)
    query.restart()
    assert query.rows(start, end) == first
    assert [row["stream"] for row in first] == [stream] * 3
    assert first[0]["id"].startswith(str(int(first[0]["timestamp"].timestamp() * 1000)))
    query.position = end
    assert (query.batch(), query.batch()) == ([b"4", b"5"], [])


def test_a_start_at_the_newest_entry_is_kept_after_a_crash(server: RedisServer, stream: str) -> None:
    add(server, stream, 1)
    query = Query(RedisSettings(server.url), stream, is_from_newest=True)
    start, end = query.plan()
    query.restart()
    add(server, stream, 2)
    query.reader.initialOffset()
    assert query.rows(start, end) == []
    query.position = end
    assert query.batch() == [b"2"]


def test_available_now_stops_at_what_is_there(server: RedisServer, stream: str) -> None:
    add(server, stream, 1, 2)
    query = Query(RedisSettings(server.url), stream, batch_size=1)
    query.reader.prepareForTriggerAvailableNow()
    add(server, stream, 3)
    assert (query.batch(), query.batch(), query.batch()) == ([b"1"], [b"2"], [])


def test_trimmed_entries_are_told(server: RedisServer, stream: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = RedisSettings(server.url)
    query, careless = Query(settings, stream), Query(settings, stream, is_loss_failure=False)
    add(server, stream, 1, 2)
    assert query.batch() == careless.batch() == [b"1", b"2"]
    add(server, stream, 3, 4, 5)
    planned = query.plan()
    with server.client() as client:
        client.xtrim(stream, maxlen=1, approximate=False)
    with pytest.raises(DataLossError, match="2 of 3 entries up to"):
        query.rows(*planned)
    with pytest.raises(DataLossError, match=r"entries after .* (were deleted|may have been trimmed)"):
        query.batch()
    with caplog.at_level(logging.WARNING):
        assert careless.batch() == [b"5"]
    assert 'data_loss="warn"' in logged(caplog)


def test_a_stream_that_was_created_again_is_told(server: RedisServer, stream: str) -> None:
    query, careless = (Query(RedisSettings(server.url), stream, is_loss_failure=flag) for flag in (True, False))
    add(server, stream, 1)
    assert query.batch() == careless.batch() == [b"1"]
    with server.client() as client:
        client.delete(stream)
        client.xadd(stream, {"n": 2}, id="1-1")
    with pytest.raises(DataLossError, match="it was deleted or restored"):
        query.batch()
    assert (careless.batch(), careless.batch()) == ([b"2"], [])


def test_a_server_that_is_away_can_come_back(server: RedisServer, stream: str) -> None:
    add(server, stream, 1)
    query = Query(RedisSettings(server.url), stream)
    assert query.batch() == [b"1"]
    add(server, stream, 2)
    planned = query.plan()
    server.kill()
    with pytest.raises(RetriableConnectorError, match=r"redis://127.0.0.1:\d+/0: read stream .* does not answer"):
        query.rows(*planned)
    server.start()
    assert [row["fields"] for row in query.rows(*planned)] == [[("n", b"2")]]


def test_a_wrong_password_is_final_and_not_shown(server: RedisServer, stream: str) -> None:
    query = Query(RedisSettings(server.url.replace(PASSWORD, "wrong-secret")), stream)
    with pytest.raises(ConnectorError, match="the user or the password is refused") as error:
        query.batch()
    assert not isinstance(error.value, RetriableConnectorError)
    assert "wrong-secret" not in f"{error.value}{query.reader._wanted!r}"
