"""Rows that a sink refuses or a rule rejects: errors name their record, and dead letters are that record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.postgres_server import PostgresServer
from tests.spark.conftest import require_spark
from tests.spark.one_run import run_pipeline

from tailrace import Producer, read_table
from tailrace.cli.main import main
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.origin import carry_origin
from tailrace.spark.record_place import ORIGIN
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

require_spark()
FLOWS = """
name: stored
source: {{connector: topic, name: {topic}, schema: "n bigint, note string"}}
sql: |
  WITH parts AS (SELECT n AS id, part FROM source LATERAL VIEW explode(split(note, ' ')) AS part)
  SELECT * FROM parts WHERE part <> 'no'
sink: {{connector: postgres, url: "{url}", table: {table}}}
errors: {errors}
---
name: inserted
source: {{connector: topic, name: {topic}, schema: "n bigint, note string"}}
sql: SELECT n AS ID FROM source
sink: {{connector: jdbc, url: "{derby}", table: numbers}}
errors: {errors}
---
name: copied
source: {{connector: topic, name: {topic}, schema: "n bigint, note string"}}
sink: {{connector: topic, name: {copies}}}
expect: {{even: {{rule: "n <> 7", on_fail: {on_fail}}}}}
errors: {errors}
"""


def send(broker: Broker, topic: str, count: int) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(count):
            value = json.dumps({"n": number, "note": f"a no {number}"}).encode()
            producer.send(topic, value, b"k%d" % number, [("trace", b"7")], partition=number % 2, timestamp_ms=number)


def letters(broker: Broker, topic: str) -> dict[str, dict[str, Any]]:
    """The dead letters by flow, with their headers."""
    table = read_table(broker.bootstrap_servers, topic, columns=["key", "value", "headers"])
    found = [row | {each["key"]: each["value"] for each in row.pop("headers")} for row in table.to_pylist()]
    assert len({row["__connect.errors.connector.name"] for row in found}) == len(found), found
    return {row["__connect.errors.connector.name"].decode(): row for row in found}


@pytest.mark.slow
def test_dead_letters_of_refused_rows_are_their_records(
    spark: SparkSession,
    broker: Broker,
    new_topic: Callable[..., str],
    postgres_server: PostgresServer,
    tmp_path: Path,
) -> None:
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))  # type: ignore[union-attr]
    topic, copies, dead = new_topic(2), new_topic(), new_topic()
    table = topic.replace("-", "_")
    derby = f"jdbc:derby:{tmp_path}/database;create=true"
    path = tmp_path / "flows.yaml"
    path.write_text(
        FLOWS.format(
            topic=topic,
            url=postgres_server.url,
            table=table,
            derby=derby,
            copies=copies,
            errors=f"{{to: {dead}}}",
            on_fail="reject",
        )
    )
    connection = spark._jvm.java.sql.DriverManager.getConnection(derby)  # type: ignore[union-attr]
    connection.createStatement().execute("CREATE TABLE numbers (id BIGINT, CONSTRAINT not_seven CHECK (id <> 7))")
    with psycopg.connect(postgres_server.url, autocommit=True) as database:
        database.execute(
            f"CREATE TABLE {table} (id bigint CONSTRAINT not_seven CHECK (id <> 7 OR part = 'a'), part text)"
        )
    send(broker, topic, 20)

    run_pipeline(spark, broker, path)
    found = letters(broker, dead)
    assert set(found) == {"stored", "inserted", "copied"}
    for letter in found.values():
        assert (letter["key"], letter["value"]) == (b"k7", b'{"n": 7, "note": "a no 7"}')
        assert [letter[f"__connect.errors.{name}"] for name in ("topic", "partition", "offset")] == [
            topic.encode(),
            b"1",
            b"3",
        ]
        assert (letter["trace"], letter["tailrace.errors.timestamp"]) == (b"7", b"7")
    assert [json.loads(found[name]["tailrace.errors.row"]) for name in ("stored", "inserted", "copied")] == [
        {"id": 7, "part": "7"},
        {"ID": 7},
        {"n": 7, "note": "a no 7"},
    ]
    assert b"NOT_SEVEN" in found["inserted"]["__connect.errors.exception.message"]
    with psycopg.connect(postgres_server.url, autocommit=True) as database:
        assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (39,)
    numbers = [row["ID"] for row in spark.read.jdbc(derby, "numbers").collect()]
    assert sorted(numbers) == [number for number in range(20) if number != 7]

    # Mended, the record goes through again.
    connection.createStatement().execute("ALTER TABLE numbers DROP CONSTRAINT not_seven")
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    assert main(["pipeline", "errors", "replay", str(path), "--flow", "inserted", "--yes", *servers]) == 0
    run_pipeline(spark, broker, path)
    assert sorted(row["ID"] for row in spark.read.jdbc(derby, "numbers").collect()) == list(range(20))


def test_an_error_names_the_record_of_a_refused_row(
    spark: SparkSession,
    broker: Broker,
    new_topic: Callable[..., str],
    postgres_server: PostgresServer,
    tmp_path: Path,
) -> None:
    topic, copies = new_topic(2), new_topic()
    table = topic.replace("-", "_")
    path = tmp_path / "flows.yaml"
    derby = f"jdbc:derby:{tmp_path}/database;create=true"
    stored, inserted, copied = FLOWS.format(
        topic=topic, url=postgres_server.url, table=table, derby=derby, copies=copies, errors="stop", on_fail="fail"
    ).split("---")
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))  # type: ignore[union-attr]
    connection = spark._jvm.java.sql.DriverManager.getConnection(derby)  # type: ignore[union-attr]
    connection.createStatement().execute("CREATE TABLE numbers (id BIGINT, CONSTRAINT not_seven CHECK (id <> 7))")
    with psycopg.connect(postgres_server.url, autocommit=True) as database:
        database.execute(f"CREATE TABLE {table} (id bigint, part text CONSTRAINT not_seven CHECK (part <> '7'))")
    send(broker, topic, 20)
    path.write_text(stored)
    with pytest.raises(FlowError, match=rf"flow stored: {topic}-1 offset 3: .*not_seven.*\"id\": 7"):
        run_pipeline(spark, broker, path)
    path.write_text(inserted)
    with pytest.raises(FlowError, match=rf"flow inserted: {topic}-1 offset 3: jdbc numbers .*NOT_SEVEN.*\"ID\": 7"):
        run_pipeline(spark, broker, path)
    path.write_text(copied)
    with pytest.raises(FlowError, match=rf"flow copied: {topic}-1 offset 3: expectation even .* is broken by the row"):
        run_pipeline(spark, broker, path)


def test_several_rows_of_one_record_are_one_dead_letter(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, copies, dead = new_topic(message_timestamp_after_max_ms=2**62), new_topic(), new_topic()
    with Producer(broker.bootstrap_servers) as producer:
        # In microseconds, as some clients send it; Python's dates do not have this year.
        producer.send(topic, b'{"n": 1}', timestamp_ms=1_700_000_000_000_000)
    path = tmp_path / "parts.yaml"
    path.write_text(f"""
name: parts
source: {{connector: topic, name: {topic}, schema: "n bigint"}}
sql: SELECT explode(sequence(1, 500)) AS m FROM source
sink: {{connector: topic, name: {copies}}}
expect: {{small: {{rule: "m < 3", on_fail: reject}}}}
errors: {{to: {dead}}}
""")
    run_pipeline(spark, broker, path)
    (letter,) = letters(broker, dead).values()
    assert (letter["value"], letter["tailrace.errors.row"]) == (b'{"n": 1}', b'{"m":3}')
    assert letter["tailrace.errors.timestamp"] == b"1700000000000000"

    path.write_text(path.read_text().replace("AS m FROM", "AS __Tailrace_Origin FROM").replace("m < 3", "true"))
    with pytest.raises(FlowError, match="the result has a column __Tailrace_Origin, a name that Tailrace uses itself"):
        run_pipeline(spark, broker, path)


def hidden(spark: SparkSession) -> DataFrame:
    """A stream that has the column below its last projection, as a source does."""
    from pyspark.sql.functions import lit

    rows = spark.readStream.format("rate").load().withColumn(ORIGIN, lit("orders 0 7"))
    return rows.select("value", "timestamp")


def test_only_rows_of_single_records_have_an_origin(spark: SparkSession) -> None:
    from pyspark.sql.functions import col, udf

    rows = hidden(spark)
    twice = udf(lambda n: n * 2, "bigint")
    assert carry_origin(rows.select(twice("value").alias("`odd` name"), col("timestamp").alias("at")), "f").columns == [
        "`odd` name",
        "at",
        ORIGIN,
    ]
    rows.createOrReplaceTempView("origin_rows")
    text = "SELECT n + 1 AS m FROM (SELECT explode(array(value, 1)) AS n FROM origin_rows WHERE value > 3) WHERE n > 1"
    assert carry_origin(spark.sql(text), "f").columns == ["m", ORIGIN]
    piped = "FROM origin_rows |> WHERE value > 3 |> EXTEND value + 1 AS m |> SELECT m"
    assert carry_origin(spark.sql(piped), "f").columns == ["m", ORIGIN]
    named = "WITH big AS (SELECT value AS v FROM origin_rows WHERE value > 3), more AS (SELECT v + 1 AS m FROM big) "
    for query in (f"{named} SELECT m FROM more", f"SELECT m FROM ({named} SELECT m FROM more) WHERE m > 5"):
        assert carry_origin(spark.sql(query).where("m > 1"), "f").columns == ["m", ORIGIN]
    assert carry_origin(rows.repartition(3).repartition("value").hint("broadcast"), "f").columns[-1] == ORIGIN
    assert carry_origin(rows.withWatermark("timestamp", "1 second"), "f").columns == ["value", "timestamp", ORIGIN]
    for other in (
        rows.groupBy("value").count(),
        rows.dropDuplicates(["value"]),
        rows.join(spark.range(3).withColumnRenamed("id", "value"), "value"),
        rows.union(rows),
        rows.mapInArrow(lambda batches: batches, rows.schema),
        spark.sql("WITH counts AS (SELECT value, count(*) AS n FROM origin_rows GROUP BY value) SELECT n FROM counts"),
        spark.sql("WITH few AS (SELECT value FROM origin_rows) SELECT a.value FROM few a JOIN few b USING (value)"),
        spark.sql("WITH few AS (SELECT * FROM origin_rows LIMIT 3) SELECT * FROM few"),
    ):
        assert carry_origin(other, "f") is other
