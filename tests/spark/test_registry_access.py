"""A pipeline with a registry that requires a password and has a private certificate."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.certificate import make_certificate
from tests.spark.one_run import run_pipeline

from tailrace import Producer
from tailrace.schema import AvroCodec, Registry
from tailrace.spark.pipeline.plan import checkpoints_of
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "cents", "type": "long"}]}'
SECRET = "a-password-that-is-nowhere-else"  # noqa: S105
PIPELINE = """
from tailrace.pipeline import flow, topic

REGISTRY = {config!r}

@flow(source=topic({source!r}, value="avro", registry=REGISTRY), sink=topic({sink!r}, value="avro", registry=REGISTRY))
def doubled(orders):
    return orders.selectExpr("cents * 2 AS cents")
"""


@contextmanager
def secure_registry(bootstrap: str, folder: Path) -> Iterator[str]:
    """A registry with a user and a certificate, as a process that is killed, because Spark keeps connections."""
    make_certificate(folder, "authority", "DNS:authority")
    make_certificate(folder, "registry", "IP:127.0.0.1", "authority")
    users = folder / "users"
    users.touch(0o600)
    users.write_text(f"ann:{SECRET}\n")
    command = [sys.executable, "-m", "tailrace", "registry", "start", "--bootstrap-server", bootstrap]
    command += ["--listen", "127.0.0.1:0", "--topic", "_schemas_of_users", "--users", str(users)]
    command += ["--certificate", str(folder / "registry-ca.pem"), "--key", str(folder / "registry-key.pem")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert " ready on " in line
            yield line.split()[-1]
        finally:
            process.kill()


@pytest.mark.slow
def test_the_password_reaches_the_registry_and_nothing_that_spark_shows_or_stores(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source = new_topic()
    sink = f"{source}-doubled"
    path = tmp_path / "pipe.py"
    with secure_registry(broker.bootstrap_servers, tmp_path) as url:
        config = {
            "url": url,
            "basic.auth.user.info": f"ann:{SECRET}",
            "ssl.ca.location": str(tmp_path / "authority-ca.pem"),
        }
        with Registry.from_config(config) as registry:
            with Producer(broker.bootstrap_servers) as producer:
                producer.send(source, AvroCodec(registry, source, schema=SCHEMA).encode({"cents": 21}))
            path.write_text(PIPELINE.format(config=config, source=source, sink=sink))
            run_pipeline(spark, broker, path)
            results = AvroCodec(registry, sink)
            assert [results.decode(record.value) for record in broker.consume(sink, [0])] == [{"cents": 42}]
    stored = [file for file in checkpoints_of(path).rglob("*") if file.is_file()]
    assert stored
    assert [file for file in stored if SECRET.encode() in file.read_bytes()] == []
    shown = _shown_queries(spark)
    assert any("MapInArrow" in text for text in shown)
    assert [text for text in shown if SECRET in text] == []


def _shown_queries(spark: SparkSession) -> list[str]:
    """Return what the web pages of Spark say about its queries and its configs."""
    status: Any = spark._jsparkSession.sharedState().statusStore()
    queries = status.executionsList()
    plans = [queries.apply(index).physicalPlanDescription() for index in range(queries.size())]
    return [*plans, str(spark.sparkContext.getConf().getAll())]
