"""`tailrace reassign`, in a pipe, with one broker: plans, and what becomes of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import tailrace
from tailrace.cli.reassign import _placed, _state
from tailrace.client.admin.core import ResourceType
from tailrace.client.admin.reassignment import Reassignment
from tailrace.client.metadata import Partition, Topic
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.testing import Broker

Run = Callable[..., tuple[int, str, str]]


def plan(folder: Path, *entries: tuple[str, int, list[int]]) -> str:
    file = folder / "plan.json"
    partitions = [{"topic": topic, "partition": index, "replicas": brokers} for topic, index, brokers in entries]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(file)


def test_a_plan_from_generation_to_verification(run: Run, topic: str, tmp_path: Path) -> None:
    run("topic", "create", topic, "--partitions", "2")
    status, output, _ = run("reassign", "generate", topic)
    generated: dict[str, Any] = json.loads(output)
    assert (status, generated["version"]) == (0, 1)
    assert generated["partitions"] == [{"topic": topic, "partition": index, "replicas": [1]} for index in (0, 1)]
    assert json.loads(run("reassign", "generate", topic, "--current", "--brokers", "1")[1]) == generated
    file = tmp_path / "plan.json"
    file.write_text(output)
    assert run("reassign", "execute", str(file)) == (0, f"{topic}-0: begun\n{topic}-1: begun\n", "")
    assert run("reassign", "verify", str(file)) == (0, f"{topic}-0\tdone\n{topic}-1\tdone\n", "")
    assert run("reassign", "list") == (0, "", "")
    assert run("reassign", "cancel", str(file)) == (0, "", "")
    for command in ("execute", "verify", "cancel"):
        assert isinstance(json.loads(run("reassign", command, str(file), "--json")[1]), list)
    assert json.loads(run("reassign", "list", "--json")[1]) == []


def test_what_cannot_be_is_told_for_each_partition(run: Run, topic: str, tmp_path: Path) -> None:
    run("topic", "create", topic)
    file = plan(tmp_path, (topic, 0, [1, 9]), (topic, 7, [1]))
    status, output, _ = run("reassign", "execute", file)
    assert status == 1
    first, second = output.splitlines()
    assert first.startswith(f"{topic}-0: INVALID_REPLICA_ASSIGNMENT")
    assert second.startswith(f"{topic}-7: UNKNOWN_TOPIC_OR_PARTITION")
    assert run("reassign", "verify", file)[:2] == (1, f"{topic}-0\telsewhere\n{topic}-7\tnot there\n")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"partitions": [{"topic": "t"}]}', '{"partitions": [{}]}', "\x00"])
def test_what_is_no_plan_is_refused(run: Run, tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    status, output, error = run("reassign", "execute", str(file))
    assert (status, output) == (2, "")
    assert "is not a plan" in error


def test_brokers_are_numbers_of_brokers_that_are_there(run: Run, topic: str) -> None:
    run("topic", "create", topic)
    for brokers in ("x", "1,,2", "9"):
        assert run("reassign", "generate", topic, "--brokers", brokers)[0] == 2
    assert run("reassign", "generate", f"{topic}-not-there")[0] == 1
    assert "INVALID_REPLICATION_FACTOR" in run("reassign", "generate", topic, "--replication-factor", "2")[2]


def test_plans_spread_over_racks() -> None:
    partitions = tuple(Partition(index, 1, 0, (1, 2), (1, 2)) for index in range(3))
    topic = Topic("t", UUID(int=1), False, partitions)
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b"}
    for replicas in _placed(topic, racks, None, 0, False):
        assert {racks[broker] for broker in replicas} == {"a", "b"}
    assert _placed(topic, racks, None, 0, True) == ((1, 2),) * 3


def test_how_far_a_partition_is() -> None:
    topic = Topic("t", UUID(int=1), False, (Partition(0, 1, 0, (1, 2), (1, 2)),))
    there = TopicPartition("t", 0)
    assert _state(topic, there, (1, 2), {}) == "done"
    assert _state(topic, there, (2, 1), {}) == "elsewhere"
    assert _state(topic, there, (1, 2), {there: Reassignment((1, 2), (2,), ())}) == "on its way"
    assert _state(ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), there, (1,), {}) == "not there"


def test_throttles_go_when_nothing_is_on_its_way(run: Run, tailrace_broker: Broker, topic: str, tmp_path: Path) -> None:
    run("topic", "create", topic)
    file = plan(tmp_path, (topic, 0, [1]))
    assert run("reassign", "execute", file, "--throttle", "1000")[0] == 0  # nobody moves, so nobody is held back
    option = "leader.replication.throttled.replicas"
    with tailrace.Admin(tailrace_broker.bootstrap_servers) as admin:

        def is_throttled() -> bool:
            configs = {config.name: config for config in admin.describe_configs(ResourceType.TOPIC, topic)}
            return not configs[option].is_default

        assert not is_throttled()
        for command, is_kept in (("verify", True), ("verify", False), ("cancel", True), ("cancel", False)):
            admin.alter_configs(ResourceType.TOPIC, topic, {option: "0:1"})
            assert run("reassign", command, file, *(["--preserve-throttles"] if is_kept else []))[0] == 0
            assert is_throttled() is is_kept
    assert run("reassign", "execute", file, "--throttle", "0")[0] == 2
    assert json.loads(run("reassign", "verify", file, "--wait", "--json")[1])[0]["progress"] is None
