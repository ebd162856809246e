"""`tailrace group` and `tailrace consume --group`, in a pipe, with Tailrace's broker or, on demand, Apache Kafka."""

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import tailrace
from tailrace.client.backoff import Deadline
from tailrace.testing import Broker

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def group_run(tailrace_broker: Broker, run: Run, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Run]:
    """A broker with groups, and how commands are run with it."""
    address = os.environ.get("TAILRACE_TEST_KAFKA") or tailrace_broker.bootstrap_servers
    monkeypatch.setenv("TAILRACE_BOOTSTRAP_SERVER", address)
    with tailrace.Admin(address) as admin:
        try:
            admin.list_groups()
        except tailrace.ApiError as error:
            if error.code is not tailrace.ErrorCode.UNSUPPORTED_VERSION:
                raise
            pytest.skip(f"the broker has no groups yet: {error}")
    return address, run


@pytest.fixture
def filled(group_run: tuple[str, Run], topic: str) -> str:
    address, _ = group_run
    with tailrace.Admin(address) as admin:
        admin.create_topics([tailrace.NewTopic(topic, 2, 1)])
    with tailrace.Producer(address) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number, partition=number % 2, timestamp_ms=1_700_000_000_000 + number * 1000)
    return topic


def test_a_group_reads_on_and_is_looked_at(group_run: tuple[str, Run], filled: str) -> None:
    address, run = group_run
    group = f"cli-{uuid.uuid4().hex[:8]}"
    first = run("consume", filled, "--group", group, "--from", "beginning", "--count", "7")
    assert first[0] == 0, first
    rest = run("consume", filled, "--group", group, "--from", "beginning", "--until-end")
    found = sorted(map(int, (first[1] + rest[1]).split()))
    assert (len(first[1].split()), found) == (7, list(range(20)))
    assert group in run("group", "list")[1].splitlines()
    listed = {item["name"]: item for item in json.loads(run("group", "list", "--state", "empty", "--json")[1])}
    assert listed[group]["state"] == "Empty"
    with tailrace.Producer(address) as producer:
        producer.send(filled, b"20", partition=1).result(60)
    lines = run("group", "describe", group)[1].splitlines()
    assert re.match(rf"group {group} · (classic|consumer) · Empty · .* · 0 members · lag 1$", lines[0])
    assert lines[1:] == [
        f"partition {filled}-0 committed 10 end 10 lag 0 member -",
        f"partition {filled}-1 committed 10 end 11 lag 1 member -",
    ]
    assert run("group", "delete", group) == (0, f"deleted group {group}\n", "")
    assert run("group", "delete", group, "--if-exists") == (0, "", "")
    for command in ("describe", "delete"):
        missing = f"tailrace: GROUP_ID_NOT_FOUND: there is no group {group}\n"
        assert run("group", command, group) == (1, "", missing)


def test_members_are_shown_and_keep_a_group_from_being_reset(group_run: tuple[str, Run], filled: str) -> None:
    address, run = group_run
    group = f"cli-{uuid.uuid4().hex[:8]}"
    members = tailrace.Consumer(
        address, group_id=group, client_id="tester", auto_offset_reset="earliest", enable_auto_commit=False
    )
    with members.subscribe(filled) as consumer:
        deadline = Deadline(30_000)
        while len(consumer.assignment()) < 2:
            assert not deadline.is_over
            consumer.poll(0.1)
        assert json.loads(run("group", "describe", group, "--json")[1])["lag"] is None, "nothing is committed"
        assert run("group", "describe", group)[1].splitlines()[0].endswith(" · lag -")
        consumer.commit({(filled, 0): 4})
        described = json.loads(run("group", "describe", group, "--json")[1])
        (member,) = described["members"]
        assert (member["client"], member["partitions"]) == ("tester", [f"{filled}-0", f"{filled}-1"])
        assert described["partitions"] == [
            {
                "topic": filled,
                "partition": number,
                "committed": committed,
                "end": 10,
                "lag": lag,
                "member": member["member"],
            }
            for number, committed, lag in [(0, 4, 6), (1, None, None)]
        ]
        lines = run("group", "describe", group)[1].splitlines()
        assert lines[-1].endswith(f"partitions {filled}-0,{filled}-1")
        status, output, error = run("group", "reset", group, "--to", "earliest")
        assert (status, output) == (1, "")
        assert f"group {group} has 1 active members (tester at " in error
        assert "stop them first" in error
        assert run("group", "delete", group)[2].startswith("tailrace: NON_EMPTY_GROUP: ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--to", "earliest"], (0, 0)),
        (["--to", "latest"], (10, 10)),
        (["--to", "3"], (3, 3)),
        (["--to", "500"], (10, 10)),  # no more than there is
        (["--to", "2023-11-14T22:13:26+00:00"], (3, 3)),  # six seconds after the first record
        (["--to", "-1h"], (10, 10)),  # nothing is so young
        (["--shift-by", "-2"], (3, 4)),
        (["--shift-by", "100"], (10, 10)),
    ],
)
def test_a_group_is_reset(
    group_run: tuple[str, Run], filled: str, arguments: list[str], expected: tuple[int, int]
) -> None:
    address, run = group_run
    group = f"cli-{uuid.uuid4().hex[:8]}"
    with tailrace.Admin(address) as admin:
        admin.alter_group_offsets(group, {(filled, 0): 5, (filled, 1): 6})
        would = run("group", "reset", group, *arguments, "--dry-run")
        assert would[1].splitlines() == [
            f"would reset {filled}-0 from 5 to {expected[0]}",
            f"would reset {filled}-1 from 6 to {expected[1]}",
        ]
        assert [found.offset for found in admin.list_group_offsets(group).values()] == [5, 6]
        done = run("group", "reset", group, *arguments)
        assert done == (0, would[1].replace("would reset", "reset"), "")
        found = admin.list_group_offsets(group)
        assert tuple(found[tailrace.TopicPartition(filled, number)].offset for number in range(2)) == expected


def test_only_some_partitions_are_reset(group_run: tuple[str, Run], filled: str) -> None:
    _, run = group_run
    group = f"cli-{uuid.uuid4().hex[:8]}"
    assert "has no committed offsets; choose topics" in run("group", "reset", group, "--to", "earliest")[2]
    done = json.loads(run("group", "reset", group, "--to", "2", "--topic", f"{filled}:1", "--json")[1])
    assert done == {
        "name": group,
        "dry_run": False,
        "partitions": [{"topic": filled, "partition": 1, "from": None, "to": 2}],
    }
    assert run("group", "reset", group, "--to", "3")[1] == f"reset {filled}-1 from 2 to 3\n"
    missing = run("group", "reset", group, "--to", "3", "--topic", f"{filled}:7")
    assert missing == (1, "", f"tailrace: topic {filled} has 2 partitions, none with the number 7\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reset", "g"], "exactly one of --to and --shift-by"),
        (["reset", "g", "--to", "latest", "--shift-by", "1"], "exactly one of --to and --shift-by"),
        (["reset", "g", "--to", "soon"], "'soon' is not a place in a log"),
        (["list", "--state", "tired"], "--state"),
        (["describe"], "NAME"),
    ],
)
def test_a_wrong_call_of_group_exits_with_2(run: Run, arguments: list[str], words: str) -> None:
    status, output, error = run("group", *arguments)
    assert (status, output) == (2, "")
    assert words in error


def test_what_was_printed_before_ctrl_c_is_committed(group_run: tuple[str, Run], filled: str) -> None:
    address, _ = group_run
    group = f"cli-{uuid.uuid4().hex[:8]}"
    command = [sys.executable, "-m", "tailrace.cli.main", "consume", filled, "--group", group, "--from", "beginning"]
    environment = os.environ | {"TAILRACE_BOOTSTRAP_SERVER": address}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        printed = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    assert (process.returncode, rest, errors) == (0, b"", b"")
    assert sorted(printed) == list(range(20))
    with tailrace.Admin(address) as admin:
        assert {found.offset for found in admin.list_group_offsets(group).values()} == {10}
        described = admin.describe_groups([group])[group]
        assert isinstance(described, tailrace.ApiError) or described.members == ()


def test_a_member_has_the_settings_of_its_file(group_run: tuple[str, Run], filled: str, tmp_path: Path) -> None:
    _, run = group_run
    group = f"cli-{uuid.uuid4().hex[:8]}"
    file = tmp_path / "consumer.properties"
    file.write_text(
        "group.protocol=classic\npartition.assignment.strategy=roundrobin\nsession.timeout.ms=20000\nclient.id=mine\n"
    )
    given = ["--command-config", str(file)]
    assert run("consume", filled, "--group", group, "--from", "beginning", "--until-end", *given)[0] == 0
    (found,) = [item for item in json.loads(run("group", "list", "--json")[1]) if item["name"] == group]
    assert (found["type"], found["state"]) == ("classic", "Empty")
    status, output, error = run("group", "describe", group, *given)
    reason = "group.protocol: this config applies only to consumers, in tailrace consume --group"
    assert (status, output, error) == (1, "", f"tailrace: {file}:1: {reason}\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("group.id=other", ":1: group.id: set it with the option --group"),
        ("isolation.level=read_committed", ":1: isolation.level: set it with the option --isolation"),
        ("group.protocl=classic", "there is no client config of this name (did you mean group.protocol?)"),
        ("group.protocol=modern", "for group.protocol: must be one of classic, consumer"),
        ("group.protocol=consumer\nsession.timeout.ms=9000", "session.timeout.ms has no effect with"),
    ],
)
def test_a_setting_that_a_member_cannot_have_is_one_line(
    run: Run, filled: str, tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text(text)
    status, output, error = run("consume", filled, "--group", "g", "--count", "1", "--command-config", str(file))
    assert (status, output) == (1, "")
    assert words in error
    assert error.count("\n") == 1
