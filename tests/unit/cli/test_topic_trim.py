"""`tailrace topic offsets` and `tailrace topic trim`, in a pipe."""

import json
from datetime import UTC, datetime

import pytest
from tests.unit.cli.conftest import Run

import tailrace
from tailrace.testing import Broker

START_MS = 1_700_000_000_000
STEP_MS = 60_000
COUNT = 10


@pytest.fixture
def filled(tailrace_broker: Broker, topic: str) -> str:
    """A topic with ten records in partition 0, a minute apart, and five of the same times in partition 1."""
    tailrace_broker.create_topic(topic, 2)
    with tailrace.Producer(tailrace_broker.bootstrap_servers) as producer:
        for number in range(COUNT):
            for partition in range(2 if number < COUNT // 2 else 1):
                producer.send(topic, b"v", partition=partition, timestamp_ms=START_MS + number * STEP_MS)
    return topic


def firsts(run: Run, topic: str) -> list[tuple[int, int]]:
    shown = json.loads(run("topic", "offsets", topic, "--json")[1])
    return [(row["earliest"], row["latest"]) for row in shown["partitions"]]


def moment(number: int) -> str:
    return datetime.fromtimestamp((START_MS + number * STEP_MS) / 1000, UTC).isoformat()


def test_offsets_of_a_topic(run: Run, filled: str) -> None:
    assert run("topic", "offsets", filled) == (
        0,
        "partition 0 earliest 0 latest 10\npartition 1 earliest 0 latest 5\n",
        "",
    )
    status, output, _ = run("topic", "offsets", filled, "--time", moment(7))
    assert (status, output.splitlines()) == (
        0,
        ["partition 0 earliest 0 latest 10 at time 7", "partition 1 earliest 0 latest 5 at time -"],
    )
    shown = json.loads(run("topic", "offsets", filled, "--time", moment(7), "--json")[1])
    assert shown == {
        "name": filled,
        "partitions": [
            {"partition": 0, "earliest": 0, "latest": 10, "at_time": 7},
            {"partition": 1, "earliest": 0, "latest": 5, "at_time": None},
        ],
    }


def test_records_before_an_offset_are_deleted_where_they_are(run: Run, filled: str) -> None:
    status, output, _ = run("topic", "trim", filled, "--before", "7", "--dry-run")
    expected = [f"would trim {filled}-0 from 0 to 7", f"would trim {filled}-1 from 0 to 5"]
    assert (status, output.splitlines()) == (0, expected)
    assert firsts(run, filled) == [(0, 10), (0, 5)]
    status, output, _ = run("topic", "trim", filled, "--before", "7")
    assert (status, output.splitlines()) == (0, [f"trimmed {filled}-0 from 0 to 7", f"trimmed {filled}-1 from 0 to 5"])
    assert firsts(run, filled) == [(7, 10), (5, 5)]
    status, output, _ = run("topic", "trim", filled, "--before", "3", "--json")
    assert (status, json.loads(output)) == (
        0,
        {
            "name": filled,
            "dry_run": False,
            "partitions": [{"partition": 0, "from": 7, "to": 7}, {"partition": 1, "from": 5, "to": 5}],
        },
    )


def test_records_before_a_time_are_deleted(run: Run, filled: str) -> None:
    assert run("topic", "trim", filled, "--before", moment(3))[0] == 0
    assert firsts(run, filled) == [(3, 10), (3, 5)]
    assert run("topic", "trim", filled, "--before", moment(8))[0] == 0
    assert firsts(run, filled) == [(8, 10), (5, 5)], "all records of partition 1 are older"


def test_one_partition_and_all_of_its_records(run: Run, filled: str) -> None:
    assert run("topic", "trim", filled, "--before", "latest", "--partition", "0") == (
        0,
        f"trimmed {filled}-0 from 0 to 10\n",
        "",
    )
    assert firsts(run, filled) == [(10, 10), (0, 5)]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--before", "11"], 1, "offset 11 is after the end of {}, which is 10 in partition 0, 5 in partition 1"),
        (["--before", "6", "--partition", "1"], 1, "offset 6 is after the end of {}, which is 5 in partition 1"),
        (["--before", "1", "--partition", "2"], 1, "has 2 partitions, none with the number 2"),
        (["--before", "earliest"], 2, "'earliest' is not an offset, latest, a time"),
        (["--before", "soon"], 2, "'soon' is not an offset, latest, a time"),
        ([], 2, "Missing option '--before'"),
    ],
)
def test_a_call_that_cannot_be_meant_deletes_nothing(
    run: Run, filled: str, arguments: list[str], status: int, words: str
) -> None:
    found, output, complaint = run("topic", "trim", filled, *arguments)
    assert (found, output) == (status, "")
    assert words.format(filled) in complaint
    assert firsts(run, filled) == [(0, 10), (0, 5)]


def test_errors_of_the_broker_are_told(run: Run, topic: str) -> None:
    for command in (("offsets", topic), ("trim", topic, "--before", "1")):
        status, output, complaint = run("topic", *command)
        assert (status, output) == (1, "")
        assert complaint.startswith("tailrace: UNKNOWN_TOPIC_OR_PARTITION")
    assert run("topic", "offsets", topic, "--time", "tomorrow")[0] == 2


def test_a_compacted_topic_is_not_trimmed(run: Run, tailrace_broker: Broker, topic: str) -> None:
    run("topic", "create", topic, "--config", "cleanup.policy=compact")
    tailrace_broker.produce(topic, [(b"key", b"value")])
    status, output, complaint = run("topic", "trim", topic, "--before", "latest")
    assert (status, output) == (1, "")
    assert complaint.startswith(f"tailrace: POLICY_VIOLATION: deleting records of {topic}-0 before offset 1")
