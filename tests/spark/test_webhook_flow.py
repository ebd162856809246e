"""Flows to a webhook that is away for a while and refuses rows, and from one that listens."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.port import free_port
from tests.spark.one_run import run_pipeline
from tests.spark.waiting import wait_until
from tests.webhook_server import Request, WebhookServer

from tailrace.client.fetch.table import read_table
from tailrace.client.produce.producer import Producer
from tailrace.spark.connector.webhook.reply import KEY_HEADER, SIGNATURE_HEADER, sign
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import checkpoints_of, plan_flow
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.spark.pipeline.topic_check import create_sinks
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROW_COUNT = 2000


@pytest.mark.slow
def test_every_row_arrives_and_refused_ones_are_dead_letters(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, dead = new_topic(2), new_topic()
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(ROW_COUNT):
            producer.send(source, json.dumps({"n": number, "at": "2026-01-02T03:04:05.000006Z"}).encode())
    arrived: Counter[int] = Counter()
    keys: dict[str, bytes] = {}
    away = [500, 503, 429]

    def answer(request: Request) -> tuple[int, dict[str, str], bytes]:
        """Answer 500 for a while, and 422 to one row in a thousand."""
        if away:
            return away.pop(), {"Retry-After": "0"}, b""
        rows = json.loads(request.body)
        if any(row["n"] % 1000 == 7 for row in rows):
            return 422, {}, b"n is wrong"
        assert rows[0]["at"] == "2026-01-02T03:04:05.000006Z"
        # A repeated request has its key again; the service has these rows.
        if keys.setdefault(request.headers[KEY_HEADER], request.body) is request.body:
            arrived.update(row["n"] for row in rows)
        return 200, {}, b""

    with WebhookServer().running() as server:
        server.answer = answer
        file = tmp_path / "webhook_out.py"
        file.write_text(f"""
from tailrace.pipeline import flow, topic, webhook

@flow(source=topic("{source}", schema="n bigint, at timestamp"), errors={{"to": "{dead}"}},
      sink=webhook("{server.url}", batch_size=100, headers={{"Authorization": "Bearer x"}}))
def send(rows): return rows
""")
        running = run_pipeline(spark, broker, file)
        first = {request.headers[KEY_HEADER] for request in server.requests}
        # Without its record of the commit, Spark repeats the batch: with the same keys, so nothing arrives twice.
        for record in (checkpoints_of(file) / "send" / "commits").glob("*0*"):
            record.unlink()
        server.requests.clear()
        run_pipeline(spark, broker, file)
        assert {request.headers[KEY_HEADER] for request in server.requests} <= first
        assert {request.headers["Authorization"] for request in server.requests} == {"Bearer x"}
    assert arrived == Counter(number for number in range(ROW_COUNT) if number % 1000 != 7)
    assert running._plans[0].place.refused.counts() == {"the server answered 422": 2}
    letters = read_table(broker.bootstrap_servers, dead).to_pylist()
    assert {json.loads(letter["value"])["n"] for letter in letters} == {7, 1007}
    assert all("__connect.errors.offset" in {each["key"] for each in letter["headers"]} for letter in letters)


def test_requests_are_rows_while_the_pipeline_runs(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    target, hooks, port = new_topic(), f"hooks-{tmp_path.name}", free_port()
    file = tmp_path / "webhook_in.py"
    file.write_text(f"""
from tailrace.pipeline import flow, topic, webhook

hook = webhook(listen="127.0.0.1:{port}", path="/orders", topic="{hooks}", schema="n bigint", secret="shh")

@flow(source=hook, sink=topic("{target}"))
def take(rows): return rows
""")
    client = {"bootstrap.servers": broker.bootstrap_servers}
    pipeline = load_pipeline(file)
    plans = [plan_flow(flow, client, checkpoints_of(file), tmp_path) for flow in pipeline.flows]
    running = PipelineRun(spark, pipeline, plans)
    running.build()
    create_sinks(plans, client)
    running.start()
    try:
        answers: list[int] = []
        threads = [threading.Thread(target=lambda n=n: answers.append(post(port, {"n": n}, "shh"))) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [200] * 20
        assert post(port, {"n": 99}, "wrong") == 401
        wait_until(lambda: running.check() and len(read(broker, target)) == 20, why=lambda: str(running.snapshot()))
    finally:
        running.stop()
    assert sorted(row["n"] for row in read(broker, target)) == list(range(20))
    with pytest.raises(ConnectionRefusedError):
        post(port, {"n": 1}, "shh")


def read(broker: Broker, topic: str) -> list[Any]:
    return [json.loads(value) for value in read_table(broker.bootstrap_servers, topic).column("value").to_pylist()]


def post(port: int, row: dict[str, Any], secret: str) -> int:
    body = json.dumps(row).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/orders", body, {SIGNATURE_HEADER: sign(secret, body)})
        reply = connection.getresponse()
        reply.read()
        return reply.status
    finally:
        connection.close()
