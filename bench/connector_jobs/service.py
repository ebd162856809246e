"""Jobs with an object store, with Redis and with a web server."""

from __future__ import annotations

import io
import json
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from tests.redis_server import started_server
from tests.s3_server import S3Server
from tests.webhook_server import WebhookServer

from bench.connector_jobs.job import SCHEMA, Job, Place, topic_sink, topic_source


def s3_jobs(place: Place) -> Iterator[Job]:
    """Parquet objects as a sink."""
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


def redis_jobs(place: Place) -> Iterator[Job]:
    """A stream as a sink and as a source."""
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
    """Arrays of a hundred rows."""
    server = place.stack.enter_context(WebhookServer().running())
    size = 100

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
