"""`tailrace mirror`: the state of a mirror, the failover of groups, and what is refused. No test starts Spark."""

import json
from collections.abc import Iterator

import pytest
from tests.unit.spark.mirror.pair import copy_once, in_threads, options, running

import tailrace
from tailrace.cli.main import main
from tailrace.client.topic_partition import TopicPartition
from tailrace.testing import Broker

Pair = tuple[Broker, Broker]
PLACE = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Two brokers, and a mirror that has copied a topic and translated the offsets of two groups."""
    with Broker() as source, Broker() as target:
        source.create_topic("orders")
        source.produce("orders", [b"%d" % number for number in range(20)])
        with tailrace.Admin(source.bootstrap_servers) as admin:
            admin.alter_group_offsets("billing", {("orders", 0): 12})
        copy_once(options(source, target, "orders", name=("east", "west")))
        yield source, target


def run(*arguments: str) -> int:
    return main(["mirror", *arguments])


def test_the_status_of_topics(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("status", "--to", pair[1].bootstrap_servers, "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    (topic,) = found["topics"]
    assert found["source"] == "east"
    assert (topic["topic"], topic["copy"], topic["record_count"], topic["behind"]) == ("orders", "orders", 20, 0)
    assert topic["error"] is None
    assert run("status", "--to", pair[1].bootstrap_servers) == 0
    assert capsys.readouterr().out.startswith("east\torders\torders\t20\t")


def test_a_failover_shows_its_plan_and_commits_it(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    target = pair[1].bootstrap_servers
    with tailrace.Admin(target) as admin:
        admin.alter_group_offsets("billing", {("orders", 0): 3})
        assert run("failover", "billing", "--to", target, "--dry-run") == 0
        assert capsys.readouterr().out == "billing\torders\t0\t12\t3\t12\t9\n"  # the end of the log has a marker
        assert admin.list_group_offsets("billing")[PLACE].offset == 3
        assert run("failover", "billing", "--to", target, "--yes") == 0
        assert f"group billing can go on at {target}" in capsys.readouterr().out
        assert admin.list_group_offsets("billing")[PLACE].offset == 12


def test_a_failover_is_told_in_json(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    target = pair[1].bootstrap_servers
    step = {"topic": "orders", "partition": 0, "source_offset": 12, "from": 3, "to": 12, "left": 9}
    with tailrace.Admin(target) as admin:
        admin.alter_group_offsets("billing", {("orders", 0): 3})
    for option, is_committed in (("--dry-run", False), ("--yes", True)):
        assert run("failover", "billing", "--to", target, option, "--json") == 0
        (told,) = json.loads(capsys.readouterr().out)
        assert told == {"group": "billing", "committed": is_committed, "partitions": [step], "notes": []}


def test_a_failover_is_refused_before_anything_changes(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    target = pair[1].bootstrap_servers
    with tailrace.Admin(target) as admin:
        admin.alter_group_offsets("billing", {("orders", 0): 3})
        assert run("failover", "billing", "nobody", "--to", target, "--yes") == 1
        assert "group nobody has no checkpoints in the target" in capsys.readouterr().err
        assert admin.list_group_offsets("billing")[PLACE].offset == 3


def test_a_group_that_is_active_in_the_target_is_refused(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    target = pair[1].bootstrap_servers
    with tailrace.Consumer(target, group_id="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe("orders")
        next(consumer)
        assert run("failover", "billing", "--to", target, "--yes") == 1
    assert "group billing has 1 active members in the target" in capsys.readouterr().err


def test_a_cluster_without_mirrors(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("status", "--to", pair[0].bootstrap_servers) == 1
    assert "no mirror writes to this cluster" in capsys.readouterr().err
    assert run("status", "--to", pair[1].bootstrap_servers, "--from", "north") == 1
    assert "no mirror from north: there are mirrors from east" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--from", "a b=HOST", "--to", "HOST", "--topics", "x"], "'a b' is not the name of a cluster"),
        (["--from", "x=HOST", "--to", "x=HOST", "--topics", "x"], "--from and --to have the same name x"),
        (["--from", "nowhere", "--to", "HOST", "--topics", "x"], "--from"),
        (["--from", "HOST", "--to", "HOST", "--topics", "("], "is not a regular expression"),
        (["--from", "HOST", "--to", "HOST", "--topics", "x", "--rename", "copy"], "must have {topic} once"),
        (["--from", "HOST", "--to", "HOST", "--topics", "x"], "are the same cluster"),
        (["--from", "HOST", "--to", "127.0.0.1:1", "--topics", "x"], "--to 127.0.0.1:1: "),
        (["--from", "HOST", "--to", "OTHER", "--topics", "no_such_topic", "--once"], "no topic of --from matches"),
    ],
)
def test_what_cannot_run_is_one_line(
    pair: Pair, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = (broker.bootstrap_servers for broker in pair)
    given = [text.replace("HOST", source).replace("OTHER", target) for text in arguments]
    assert run("run", *given) != 0
    told = capsys.readouterr().err.strip()
    assert complaint in told
    assert "Traceback" not in told


def test_a_run_that_ended_leaves_the_last_error(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as source, Broker() as target:
        target.create_topic("small", 1, {"max.message.bytes": 100})
        source.create_topic("small")
        source.produce("small", [b"x" * 1_000])
        with running(options(source, target, "small", round_s=0.3)) as mirror:
            mirror.run_round(in_threads)
        assert run("status", "--to", target.bootstrap_servers, "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert "max.message.bytes" in found["topics"][0]["error"]
