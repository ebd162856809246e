"""Configurations of Kafka Connect, translated and run against PostgreSQL and an object store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.s3_server import S3Server
from tests.spark.conftest import require_spark
from tests.spark.one_run import run_pipeline
from tests.spark.waiting import start_running, wait_until

from tailrace.connect.plugin.translation import translate
from tailrace.spark.connector.base import FlowPlace, FlowStart
from tailrace.spark.connector.jdbc import jdbc
from tailrace.spark.connector.s3.s3 import s3
from tailrace.spark.connector.s3.store import open_store
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

obstore = pytest.importorskip("obstore", reason="obstore is not installed")
require_spark()
pytestmark = pytest.mark.slow

Run = Callable[[str, dict[str, str]], None]


@pytest.fixture
def run(spark: SparkSession, broker: Broker, tmp_path: Path) -> Run:
    """Translates a configuration, and runs its pipeline until it has read what is there."""

    def translate_and_run(name: str, config: dict[str, str]) -> None:
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump_all(list(translate(name, config).documents)))
        run_pipeline(spark, broker, path)

    return translate_and_run


def test_changes_go_to_a_topic_for_each_table_and_rows_to_a_table(
    run: Run, read: Callable[..., DataFrame], postgres_server: Any
) -> None:
    """Debezium's connector fills two topics from one slot. A JDBC sink upserts and deletes what one of them says."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    info = conninfo_to_dict(postgres_server.url)
    changes = {
        "connector.class": "PostgresConnector",
        "database.hostname": str(info["host"]),
        "database.port": str(info["port"]),
        "database.user": str(info["user"]),
        "database.password": str(info["password"]),
        "database.dbname": str(info["dbname"]),
        "topic.prefix": "shop",
        "table.include.list": "public.cc_orders,public.cc_items",
        "slot.name": "cc_slot",
        "publication.name": "cc_publication",
        "decimal.handling.mode": "string",
        "interval.handling.mode": "string",
    }
    with psycopg.connect(postgres_server.url, autocommit=True) as database:
        for table in ("cc_orders", "cc_items"):
            database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, note text)")
        database.execute("INSERT INTO cc_orders VALUES (1, 'one'), (2, 'two')")
        run("changes", changes)
        database.execute("INSERT INTO cc_items VALUES (7, 'seven')")
        database.execute("DELETE FROM cc_orders WHERE id = 1")
        database.execute("TRUNCATE cc_items")  # left out, as Debezium does
        run("changes", changes)
        database.execute("SELECT pg_drop_replication_slot('cc_slot')")

        found = {
            table: [
                value and json.loads(value)["op"]
                for (value,) in read(subscribe=f"shop.public.{table}").orderBy("offset").select("value").collect()
            ]
            for table in ("cc_orders", "cc_items")
        }
        assert found == {"cc_orders": ["r", "r", "d", None], "cc_items": ["c"]}

        run("rows", sink_config(info, "shop.public.cc_orders"))
        assert database.execute("SELECT id, after FROM cc_copy").fetchall() == [(2, {"note": "two"})]


def sink_config(info: dict[str, Any], topic: str) -> dict[str, str]:
    return {
        "connector.class": "JdbcSink",
        "connection.url": f"jdbc:postgresql://{info['host']}:{info['port']}/{info['dbname']}",
        "connection.user": str(info["user"]),
        "connection.password": str(info["password"]),
        "topics": topic,
        "table.name.format": "cc_copy",
        "auto.create": "true",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "pk.fields": "id",
        "delete.enabled": "true",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "tailrace.key.schema": "id int",
        "tailrace.schema": "after struct<note string>",
    }


def test_objects_have_at_most_flush_size_records(
    run: Run, spark: SparkSession, write: Callable[..., None], new_topic: Callable[..., str], tmp_path: Path
) -> None:
    name = new_topic()
    write(spark.sql("SELECT to_json(struct(id)) AS value FROM range(5)").coalesce(1), topic=name)
    with S3Server() as server:
        bucket = server.create_bucket()
        options = dict(server.options)
        config = {
            "connector.class": "S3Sink",
            "topics": name,
            "s3.bucket.name": bucket,
            "s3.region": "us-east-1",
            "store.url": options["endpoint"],
            "aws.access.key.id": options["access_key_id"],
            "aws.secret.access.key": options["secret_access_key"],
            "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
            "flush.size": "2",
            "tailrace.schema": "id bigint",
        }
        run("objects", config)
        written = s3(f"s3://{bucket}/topics/{name}", format="json", schema="id bigint", options=options)
        rows = written.sample(FlowStart(spark, FlowPlace("check", tmp_path, tmp_path)))
        assert sorted(row.id for row in rows.collect()) == list(range(5))
        store = open_store(written.settings)
        paths = [each["path"] for each in obstore.list(store).collect() if "_tailrace" not in each["path"]]
        counts = [len(bytes(obstore.get(store, path).bytes()).splitlines()) for path in paths]
        assert sum(counts) == 5
        assert max(counts) <= 2


def test_new_rows_are_read_by_jdbc_while_the_flow_runs(spark: SparkSession, tmp_path: Path) -> None:
    """A flow that started with an empty table never read a row of it."""
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))  # type: ignore[union-attr]
    url = f"jdbc:derby:{tmp_path}/database;create=true"

    def insert(*numbers: int) -> None:
        rows = spark.createDataFrame([(number,) for number in numbers], "N int")
        rows.coalesce(1).write.jdbc(url, "numbers", "append")

    insert()
    place = FlowPlace("numbers", tmp_path / "checkpoint", tmp_path)
    start = FlowStart(spark, place)
    source = jdbc(url, table="numbers", cursor="N", poll="1 second")
    rows = source.read(start)
    start.settle()
    writer = rows.writeStream.format("memory").queryName("jdbc_numbers")
    query = start_running(writer.option("checkpointLocation", str(place.checkpoint)).start)
    try:
        for numbers in ((1, 2), (3,)):
            insert(*numbers)
            last = numbers[-1]
            wait_until(lambda: last in [row.N for row in spark.table("jdbc_numbers").collect()], timeout_s=300)  # noqa: B023
        assert sorted(row.N for row in spark.table("jdbc_numbers").collect()) == [1, 2, 3]
    finally:
        query.stop()
        source.stop_source(place)
