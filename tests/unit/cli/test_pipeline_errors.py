"""`tailrace pipeline errors`: dead letters are listed, and their records are sent again once."""

import gc
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tailrace import Admin, Producer
from tailrace.cli.main import main
from tailrace.client.admin.core import NewTopic
from tailrace.spark.connector.record_row import read_record
from tailrace.spark.dead_letter import Fault, Rejected, Stage, write_headers
from tailrace.testing import Broker

TEXT = """
name: copy
source: {connector: topic, name: SOURCE, schema: "n int"}
sink: {connector: topic, name: copies}
errors: {to: DEAD}
---
name: other
source: {connector: topic, name: SOURCE, schema: "n int"}
sink: {connector: topic, name: copies}
"""


@pytest.fixture
def tailrace_broker() -> Iterator[Broker]:
    """A broker for each test, because all of them use the same topics and the same group."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def file(tailrace_broker: Broker, tmp_path: Path) -> Path:
    with Admin(tailrace_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("SOURCE", 3), NewTopic("DEAD", 2)])
    path = tmp_path / "pipe.yaml"
    path.write_text(TEXT)
    return path


def bury(broker: Broker, offsets: Iterable[int], *, flow: str = "copy", topic: str = "SOURCE") -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for offset in offsets:
            row = {
                "key": b"k%d" % offset,
                "value": b"bad %d" % offset,
                "headers": [{"key": "trace", "value": b"7"}],
                "topic": topic,
                "partition": 2,
                "offset": offset,
                "timestamp": None,
            }
            rejected = read_record(row, Fault("not JSON", "E", "F"))
            headers = write_headers(rejected, flow, 0)
            producer.send("DEAD", rejected.value, rejected.key, headers, partition=offset % 2, timestamp_ms=offset)


def bury_row(broker: Broker) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        rejected = Rejected(Stage.WRITE, Fault("too long", "E", "F"), b'{"n": 1}')
        producer.send("DEAD", rejected.value, None, write_headers(rejected, "copy", None), partition=0)


def replay(file: Path, broker: Broker, *more: str) -> int:
    command = ["pipeline", "errors", "replay", str(file), "--yes", "--bootstrap-server", broker.bootstrap_servers]
    return main([*command, *more])


def test_the_newest_dead_letters_are_listed(
    file: Path, tailrace_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    bury(tailrace_broker, range(5))
    bury_row(tailrace_broker)
    servers = ["--bootstrap-server", tailrace_broker.bootstrap_servers]
    assert main(["pipeline", "errors", "list", str(file), "--limit", "2", *servers]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[1:] for line in lines] == [
        ["copy", "SOURCE-2 offset 4", "VALUE_CONVERTER", "not JSON", "bad 4"],
        ["copy", "-", "TASK_PUT", "too long", '{"n": 1}'],
    ]
    assert main(["pipeline", "errors", "list", "DEAD", "--json", *servers]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(each["origin"]["offset"] for each in found if each["origin"]) == [0, 1, 2, 3, 4]
    assert main(["pipeline", "errors", "list", "DEAD", "--flow", "x", *servers]) == 0
    assert capsys.readouterr().out == ""
    assert main(["pipeline", "errors", "list", "missing", *servers]) == 1
    assert capsys.readouterr().err == "tailrace: there is no topic missing; a pipeline creates it when it first runs\n"


def test_dead_letters_of_one_flow_are_found_below_those_of_others(
    file: Path, tailrace_broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the newest dead letters of the topic were looked at, whichever flow had sent them."""
    monkeypatch.setattr("tailrace.spark.pipeline.replay.SPARK_DEAD_LETTERS_READ_MAX", 3)
    bury(tailrace_broker, [1, 2, 4])
    bury(tailrace_broker, range(10, 30), flow="elsewhere")
    servers = ["--bootstrap-server", tailrace_broker.bootstrap_servers]
    for chosen in ([str(file)], ["DEAD", "--flow", "copy"]):
        assert main(["pipeline", "errors", "list", *chosen, "--limit", "2", "--json", *servers]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [(each["origin"]["offset"], each["time"]) for each in found] == [
            (2, "1970-01-01T00:00:00Z"),
            (4, "1970-01-01T00:00:00Z"),
        ]


def test_a_replay_without_a_topic_is_one_line(
    tailrace_broker: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its producer was not closed, and asyncio complained about the task of the producer."""
    path = tmp_path / "never.yaml"
    path.write_text(TEXT.replace("DEAD", "NEVER"))
    assert replay(path, tailrace_broker) == 1
    gc.collect()
    assert capfd.readouterr().err == "tailrace: there is no topic NEVER; a pipeline creates it when it first runs\n"


def test_a_record_is_sent_again_once(file: Path, tailrace_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    bury(tailrace_broker, [0, 1, 2, 2, 3])
    bury_row(tailrace_broker)
    bury(tailrace_broker, [5], flow="elsewhere")
    bury(tailrace_broker, [7], topic="not-a-source")
    assert replay(file, tailrace_broker, "--limit", "1") == 0
    assert replay(file, tailrace_broker) == 0
    bury(tailrace_broker, [1, 9])  # of a batch that was repeated after the replay
    assert replay(file, tailrace_broker) == 0
    assert replay(file, tailrace_broker) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tailrace: flow copy: 1 record sent again to topic SOURCE",
        "tailrace: flow copy: 3 records sent again to topic SOURCE; left out 1 dead letter whose record was sent "
        "before; left out 1 row without a record to send again; left out 1 record of topics that the flow does not "
        "read at these brokers",
        "tailrace: flow copy: 1 record sent again to topic SOURCE; left out 1 dead letter whose record was sent before",
        "tailrace: flow copy: no new records in topic DEAD",
    ]
    records = tailrace_broker.consume("SOURCE", [2])
    assert sorted((record.key, record.value) for record in records) == [
        (b"k%d" % offset, b"bad %d" % offset) for offset in (0, 1, 2, 3, 9)
    ]
    assert {record.headers for record in records} == {(("trace", b"7"), ("tailrace.errors.replays", b"1"))}


def test_a_replay_is_told_in_json(file: Path, tailrace_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    bury(tailrace_broker, [0, 1])
    bury_row(tailrace_broker)
    assert replay(file, tailrace_broker, "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "flow": "copy",
            "dead_letters": "DEAD",
            "sent": 2,
            "topics": ["SOURCE"],
            "left_out": {"repeated": 0, "rows": 1, "foreign": 0},
        }
    ]


def test_a_replay_asks_first_and_names_what_is_missing(
    file: Path, tailrace_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    bury(tailrace_broker, [3])
    command = ["pipeline", "errors", "replay", str(file), "--bootstrap-server", tailrace_broker.bootstrap_servers]
    assert main(command) == 1  # stdin is empty
    assert "Send 1 record of flow copy again to topic SOURCE?" in capsys.readouterr().out
    assert tailrace_broker.consume("SOURCE", [2]) == []
    assert main([*command, "--flow", "other"]) == 1
    assert 'flow other has no dead-letter topic; set errors={"to": TOPIC}' in capsys.readouterr().err
    assert main([*command, "--flow", "third"]) == 1
    assert "pipe.yaml has no flow third; its flows are copy, other" in capsys.readouterr().err
