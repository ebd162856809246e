"""Jobs with an object store, with Redis and with a web server."""

from __future__ import annotations

import http.client
import io
import json
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet
from tests.port import free_port
from tests.redis_server import started_server
from tests.s3_server import S3Server
from tests.webhook_server import WebhookServer

from bench.connector_jobs.job import SCHEMA, Job, Place, topic_sink, topic_source

_OBJECTS = 4
_ARRAY_ROWS = 100
_CONNECTIONS = 4


def s3_jobs(place: Place) -> Iterator[Job]:
    """Parquet objects as a sink and as a source."""
    import obstore

    server = place.stack.enter_context(S3Server())
    bucket = server.create_bucket()

    def put() -> None:
        buffer = io.BytesIO()
        pa.parquet.write_table(place.rows.table, buffer)
        options: Any = server.options
        store = obstore.store.S3Store(bucket, **options, client_options={"allow_http": True})
        obstore.put(store, "alone.parquet", buffer.getvalue())

    def new_prefix() -> dict[str, Any]:
        return {"connector": "s3", "url": f"s3://{bucket}/{uuid.uuid4().hex}", "options": server.options}

    yield Job("topic to s3 (Parquet)", topic_source(), new_prefix, place.rows.count, "obstore puts one object", put)

    part = (place.rows.count + _OBJECTS - 1) // _OBJECTS
    options: Any = server.options
    store = obstore.store.S3Store(bucket, **options, client_options={"allow_http": True})
    for index in range(_OBJECTS):
        buffer = io.BytesIO()
        pa.parquet.write_table(place.rows.table.slice(index * part, part), buffer)
        obstore.put(store, f"source/{index}.parquet", buffer.getvalue())

    def get() -> None:
        for index in range(_OBJECTS):
            body = obstore.get(store, f"source/{index}.parquet").bytes()
            pa.parquet.read_table(pa.BufferReader(body.to_bytes()))

    source = {"connector": "s3", "url": f"s3://{bucket}/source", "options": server.options}
    yield Job("s3 (Parquet) to topic", source, topic_sink, place.rows.count, "obstore and pyarrow read", get)


def redis_jobs(place: Place) -> Iterator[Job]:
    """Hashes as a sink, and a stream as a sink and as a source."""
    server = place.stack.enter_context(started_server())
    rows = place.rows

    def empty() -> None:
        server.client().delete("sink", "alone")

    def add(stream: str) -> None:
        client = server.client()
        for start in range(0, rows.count, 1_000):
            pipe = client.pipeline(transaction=False)
            for each in rows.objects[start : start + 1_000]:
                pipe.xadd(stream, each)
            pipe.execute()

    def read() -> None:
        client, position = server.client(), "-"
        while found := client.xrange("source", min=position, count=1_000):
            position = f"({found[-1][0].decode() if isinstance(found[-1][0], bytes) else found[-1][0]}"

    def set_hashes() -> None:
        client = server.client()
        for start in range(0, rows.count, 1_000):
            pipe = client.pipeline(transaction=False)
            for each in rows.objects[start : start + 1_000]:
                pipe.hset(f"alone:{each['id']}", mapping=each)
            pipe.execute()

    hashes = {"connector": "redis", "url": server.url, "hash": "row:{id}"}
    yield Job(
        "topic to redis hashes",
        *(topic_source(), lambda: hashes, rows.count),
        *("redis-py, 1,000 commands a pipeline", set_hashes, lambda: server.client().flushdb()),
    )
    server.client().flushdb()
    sink = {"connector": "redis", "url": server.url, "stream": "sink"}
    yield Job(
        "topic to redis stream",
        *(topic_source(), lambda: sink, rows.count),
        *("redis-py, 1,000 commands a pipeline", lambda: add("alone"), empty),
    )
    add("source")
    source = {"connector": "redis", "url": server.url, "stream": "source", "schema": SCHEMA}
    yield Job("redis stream to topic", source, topic_sink, rows.count, "redis-py reads 1,000 at a time", read)


def webhook_jobs(place: Place) -> Iterator[Job]:
    """Arrays of a hundred rows, sent and received."""
    server = place.stack.enter_context(WebhookServer().running())
    size = _ARRAY_ROWS

    def post() -> None:
        for start in range(0, place.rows.count, size):
            body = json.dumps(place.rows.objects[start : start + size]).encode()
            headers = {"content-type": "application/json"}
            request = urllib.request.Request(server.url, body, headers, method="POST")  # noqa: S310
            urllib.request.urlopen(request).close()  # noqa: S310 - of the server of this benchmark

    sink = {"connector": "webhook", "url": server.url, "batch_size": size}
    yield Job(
        "topic to webhook, 100 rows each", topic_source(), lambda: sink, place.rows.count, "urllib, one by one", post
    )

    listen = {"connector": "webhook", "listen": f"127.0.0.1:{free_port()}", "schema": SCHEMA, "partitions": 2}
    yield Job(
        f"webhook that listens to topic, {size} rows each",
        *(listen, topic_sink, place.rows.count),
        *("the same requests to http.server", lambda: _post_all(place, urlsplit(server.url).netloc)),
        feed=lambda source: _post_all(place, source["listen"]),
    )


def _post_all(place: Place, address: str) -> None:
    """Post all rows over some connections, each with one request after the other."""

    def post(first: int) -> None:
        connection = http.client.HTTPConnection(address)
        for start in range(first * _ARRAY_ROWS, place.rows.count, _CONNECTIONS * _ARRAY_ROWS):
            body = b"[" + b",".join(place.rows.lines[start : start + _ARRAY_ROWS]) + b"]"
            connection.request("POST", "/", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.HTTPStatus.OK:
                raise RuntimeError(f"a request was answered with {answer.status}")
        connection.close()

    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        for _ in pool.map(post, range(_CONNECTIONS)):
            pass
