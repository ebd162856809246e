"""Records that cannot be decoded: they stop a flow, are skipped, or go to a dead-letter topic and come back from it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.one_run import run_pipeline

from tailrace import Producer, read_table
from tailrace.cli.main import main
from tailrace.schema.language import SchemaType
from tailrace.schema.registry import Registry
from tailrace.schema.stored import NewSchema
from tailrace.spark.pipeline.error import FlowError
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'
LARGE = json.dumps({"user": "x" * 2_000, "n": 5}).encode()
NOT_JSON = "value is not valid JSON for the schema"

FILE = """
from tailrace.pipeline import flow, topic

plain = topic({json!r}, schema="user string, n int", include=("offset",))
framed = topic({avro!r}, value="avro", registry={url!r}, include=("key",))

@flow(source=plain, sink=topic({sink!r}, key="user"), errors={errors!r}{expect})
def texts(rows):
    return rows.where("user <> 'none'")

@flow(source=framed, sink=topic({sink!r}), errors={errors!r})
def numbers(rows):
    return rows.selectExpr("n", "cast(key as string) key")
"""


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[str]:
    from tailrace.testing.registry import SchemaRegistry

    with SchemaRegistry(broker.bootstrap_servers) as running:
        yield running.url


@pytest.fixture
def names(broker: Broker, registry: str, new_topic: Callable[..., str]) -> dict[str, str]:
    """Two topics with good and bad values, and a sink."""
    found = {"json": new_topic(2), "avro": new_topic(), "sink": new_topic(max_message_bytes=2_000), "url": registry}
    with Registry(registry) as client:
        schema_id = client.register(f"{found['avro']}-value", NewSchema(SCHEMA, SchemaType.AVRO)).id
    frame = b"\x00" + schema_id.to_bytes(4)
    with Producer(broker.bootstrap_servers) as producer:
        for value in (b'{"user": "ann", "n": 1}', b'{"user": "bob", "n": 2}', None):
            producer.send(found["json"], value, b"k", partition=0)
        headers = [("trace", b"7"), ("none", None)]
        producer.send(found["json"], b'{"user": "cut', b"k3", headers, partition=1, timestamp_ms=1_234)
        for value in (b'{"user": "eve", "n": "x"}', b" ", b'{"user": "dan", "n": -4}', LARGE):
            producer.send(found["json"], value, partition=1)
        producer.send(found["avro"], frame + b"\x02", b"a")
        for value in (b"no frame", frame + b"\xff", b"\x00\x00\x01\x00\x00\x02"):
            producer.send(found["avro"], value, b"b")
        producer.send(found["avro"], frame + b"\x06", b"c")
    return found


def rows_of(broker: Broker, topic: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(
        broker.bootstrap_servers,
        topic,
        columns=["key", "value", "headers", "timestamp"],
        isolation_level="read_committed",
    ).to_pylist()
    return rows


def numbers_in(broker: Broker, topic: str) -> list[int]:
    return sorted(json.loads(row["value"])["n"] for row in rows_of(broker, topic))


@pytest.mark.slow
def test_dead_letters_keep_the_record_and_say_what_was_wrong(
    spark: SparkSession, broker: Broker, names: dict[str, str], tmp_path: Path
) -> None:
    path, dead = tmp_path / "pipe.py", f"{names['sink']}-dead"
    expect = """, expect={"positive": {"rule": "n > 0", "on_fail": "reject"}}"""
    path.write_text(FILE.format(errors={"to": dead}, expect=expect, **names))
    running = run_pipeline(spark, broker, path)
    assert numbers_in(broker, names["sink"]) == [1, 1, 2, 3]
    assert {name: (tally.rejected, tally.broken) for name, tally in running.tallies.items()} == {
        "texts": ({NOT_JSON: 3, f"a record is too large for topic {names['sink']}": 1}, {"positive": 1}),
        "numbers": ({"value is not valid for its format": 2, "schema of the value is unknown": 1}, {}),
    }
    letters = {
        row["value"]: {each["key"]: each["value"] for each in row["headers"]} | {"": row["key"]}
        for row in rows_of(broker, dead)
    }
    assert len(letters) == 8
    cut = letters[b'{"user": "cut']
    stack = cut.pop("__connect.errors.exception.stacktrace")
    assert b"JSONDecodeError" in stack
    assert cut.pop("__connect.errors.class.name").endswith(b"JsonReject")
    assert cut.pop("__connect.errors.exception.message").startswith(NOT_JSON.encode() + b": Unterminated string")
    assert cut == {
        "": b"k3",
        "trace": b"7",
        "none": None,
        "__connect.errors.topic": names["json"].encode(),
        "__connect.errors.partition": b"1",
        "__connect.errors.offset": b"0",
        "__connect.errors.connector.name": b"texts",
        "__connect.errors.task.id": cut["__connect.errors.task.id"],
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.exception.class.name": b"tailrace.spark.error.MalformedValue",
        "tailrace.errors.timestamp": b"1234",
    }
    framed = letters[b"no frame"]
    assert (framed[""], framed["__connect.errors.offset"]) == (b"b", b"1")
    assert framed["__connect.errors.exception.message"].startswith(b"not a valid Avro value: it does not begin with 0")
    broken = letters[b'{"user": "dan", "n": -4}']
    assert broken["__connect.errors.exception.message"] == b"expectation positive (n > 0) is broken"
    assert (broken["tailrace.errors.row"], broken["__connect.errors.offset"]) == (
        b'{"user":"dan","n":-4,"offset":3}',
        b"3",
    )
    large = letters[LARGE]
    assert large["__connect.errors.offset"] == b"4"
    # With the key, and the headers of the record and of its batch.
    size = len(large["tailrace.errors.row"]) + 2_000 + 82
    message = f"a record is too large for topic {names['sink']}: it takes {size} bytes, of 2000"
    assert large["__connect.errors.exception.message"] == message.encode()
    assert Counter(letter["__connect.errors.stage"] for letter in letters.values()) == {
        b"VALUE_CONVERTER": 6,
        b"TRANSFORMATION": 1,
        b"TASK_PUT": 1,
    }


@pytest.mark.slow
def test_dead_letters_go_through_a_flow_that_was_mended(
    spark: SparkSession, broker: Broker, names: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, dead = tmp_path / "pipe.py", f"{names['sink']}-dead"
    text = "@flow".join(FILE.format(errors={"to": dead}, expect="", **names).split("@flow")[:2])
    path.write_text(text)
    run_pipeline(spark, broker, path)
    command = ["pipeline", "errors", "replay", str(path), "--yes", "--bootstrap-server", broker.bootstrap_servers]
    for _ in range(2):
        assert main(command) == 0
    assert [line.split("; ")[0] for line in capsys.readouterr().out.splitlines()] == [
        f"tailrace: flow texts: 4 records sent again to topic {names['json']}",
        f"tailrace: flow texts: no new records in topic {dead}",
    ]
    path.write_text(text.replace("n int", "n string"))
    run_pipeline(spark, broker, path)
    found = [json.loads(row["value"]) for row in rows_of(broker, names["sink"])]
    assert [row["n"] for row in found if row["user"] == "eve"] == ["x"]
    letters = [{each["key"]: each["value"] for each in row["headers"]} for row in rows_of(broker, dead)]
    origins = [
        (letter["__connect.errors.offset"], letter.get("tailrace.errors.replays"))
        for letter in letters
        if letter["__connect.errors.stage"] == b"VALUE_CONVERTER"
    ]
    # Those that are no JSON at all are rejected again, as the records that the replay has sent.
    assert sorted(origins, key=str) == [(b"0", None), (b"1", None), (b"2", None), (b"5", b"1"), (b"7", b"1")]


KILLED = """
import os, pathlib, signal
from tailrace.pipeline import flow, topic
from tailrace.spark.connector.base import Sink

class Lines(Sink):
    def write_batch(self, batch, batch_id, place):
        users = [row.user for row in batch.collect()]
        if not pathlib.Path({killed!r}).exists():
            pathlib.Path({killed!r}).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with open({out!r}, "a") as file:
            file.write("".join(user + "\\n" for user in users))

@flow(source=topic({json!r}, schema="user string, n int"), sink=Lines(), errors={{"to": {dead!r}}})
def lines(rows):
    return rows.where("user <> ''")
"""


def run_command(command: list[str], output: Path) -> int:
    """Run a command, and end what it leaves behind: the Java of a driver that was killed may outlive it."""
    with (
        output.open("w") as file,
        subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True) as process,
    ):
        try:
            return process.wait(300)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_kill_before_the_end_of_a_batch_loses_no_dead_letter(
    broker: Broker, names: dict[str, str], tmp_path: Path
) -> None:
    """The first run dies when its dead letters are written and its batch is not finished; the second repeats both."""
    path, dead, out = tmp_path / "pipe.py", f"{names['sink']}-dead", tmp_path / "out"
    path.write_text(KILLED.format(killed=str(tmp_path / "killed"), out=str(out), dead=dead, json=names["json"]))
    servers = ["--bootstrap-server", broker.bootstrap_servers]
    command = [sys.executable, "-m", "tailrace", "pipeline", "run", str(path), "--once", *servers]
    assert run_command(command, tmp_path / "first") == -signal.SIGKILL
    assert (len(rows_of(broker, dead)), out.exists()) == (3, False)
    assert run_command(command, tmp_path / "second") == 0
    assert f"3 rejected ({NOT_JSON})" in (tmp_path / "second").read_text()
    assert sorted(out.read_text().split()) == sorted(["ann", "bob", "dan", "x" * 2_000])
    counts = Counter(row["value"] for row in rows_of(broker, dead))
    assert counts == {b'{"user": "cut': 2, b'{"user": "eve", "n": "x"}': 2, b" ": 2}
    assert main(["pipeline", "errors", "replay", str(path), "--yes", *servers]) == 0
    sent = Counter(row["value"] for row in rows_of(broker, names["json"]))
    assert [sent[value] for value in counts] == [2, 2, 2]  # the first time, and once again


def test_an_error_stops_a_flow_or_is_skipped(
    spark: SparkSession, broker: Broker, names: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "pipe.py"
    flows = FILE.format(errors="stop", expect="", **names).split("@flow")
    path.write_text("@flow".join(flows[:2]))
    with pytest.raises(FlowError) as caught:
        run_pipeline(spark, broker, path)
    cut, wrong = (f"{names['json']}-1 offset {offset}: {NOT_JSON} " for offset in (0, 1))
    hint = ': to continue, set errors= of the flow to "skip" or {"to": TOPIC}, or malformed="null" of topic()'
    assert str(caught.value) in (
        f'flow texts: {cut}({{"user": "cut){hint}',
        f'flow texts: {wrong}({{"user": "eve){hint}',
    )
    path.write_text("@flow".join([flows[0], flows[2]]))
    with pytest.raises(FlowError, match=rf"flow numbers: {names['avro']}-0 offset 1: not a valid .* \(no frame\)$"):
        run_pipeline(spark, broker, path)
    assert rows_of(broker, names["sink"]) == []

    path.write_text(FILE.format(errors="skip", expect="", **names))
    running = run_pipeline(spark, broker, path)
    assert numbers_in(broker, names["sink"]) == [-4, 1, 1, 2, 3]
    assert [sum(tally.rejected.values()) for tally in running.tallies.values()] == [4, 3]
