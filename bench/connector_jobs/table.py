"""Jobs with a compacted topic as a table, next to a join with the whole topic as a batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

import tailrace
from bench.connector_jobs.job import PARTITION_COUNT, SCHEMA, TOPIC, Instead, Job, Place, topic_sink, topic_source

_NAME = "customers"
_KEY = "name"
_COLUMNS = "city string, score bigint"
_SIZE = 5_000
"""As many as the rows have different names."""
_SQL = "SELECT rows.*, city, score FROM rows LEFT JOIN customers USING (name)"


def table_jobs(place: Place) -> Iterator[Job]:
    """Each row gets the columns of its customer."""
    cities = [f"city {number % 500}" for number in range(_SIZE)]
    keys = [f"customer {number}" for number in range(_SIZE)]
    customers = pa.table({_KEY: keys, "city": cities, "score": [*range(_SIZE)]})
    _fill(place, keys, cities)

    def join() -> None:
        place.rows.table.join(customers, _KEY, join_type="left outer")

    table = {"connector": "table", "name": _NAME, "key": _KEY, "schema": _COLUMNS}
    yield Job(
        f"topic with a table of {_SIZE:,} rows to topic",
        *(topic_source(), topic_sink, place.rows.count, "pyarrow joins what is in memory", join),
        instead=(Instead("spark.read of both topics, as a batch", lambda: _join_batch(place)),),
        document={"source": None, "sources": {"rows": topic_source(), "customers": table}, "sql": _SQL},
    )


def _fill(place: Place, keys: list[str], cities: list[str]) -> None:
    configs = {"cleanup.policy": "compact"}
    with tailrace.Admin(place.servers) as admin:
        admin.create_topics([tailrace.NewTopic(_NAME, PARTITION_COUNT, configs=configs)])
    with tailrace.Producer(place.servers, linger_ms=20) as producer:
        for number, (key, city) in enumerate(zip(keys, cities, strict=True)):
            producer.send(_NAME, f'{{"city": "{city}", "score": {number}}}'.encode(), key.encode())


def _join_batch(place: Place) -> float:
    """Join the topics without a flow, and write the result to a topic."""
    from pyspark.sql.functions import col, from_json, max_by

    def read(name: str, columns: str) -> Any:
        options = {"kafka.bootstrap.servers": place.servers, "subscribe": name, "columns": columns}
        return place.spark.read.format("tailrace").options(**options).load()

    topic = place.create_topic()
    begun_s = time.perf_counter()
    text = col("value").cast("string")
    rows = read(TOPIC, "value").select(from_json(text, SCHEMA).alias("row")).select("row.*")
    newest = read(_NAME, "key,value,offset").groupBy("key").agg(max_by("value", "offset").alias("value"))
    decoded = newest.select(col("key").cast("string").alias(_KEY), from_json(text, _COLUMNS).alias("row"))
    joined = rows.join(decoded.select(_KEY, "row.*"), _KEY, "left").selectExpr("to_json(struct(*)) AS value")
    target = {"kafka.bootstrap.servers": place.servers, "topic": topic}
    joined.write.format("tailrace").options(**target).mode("append").save()
    return time.perf_counter() - begun_s
