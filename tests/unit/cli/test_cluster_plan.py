"""What `tailrace cluster` remembers of its processes, and what it tells its brokers."""

import stat
from pathlib import Path

import click
import pytest

from tailrace.cli.cluster_plan import PLAN_FILE_NAME, ClusterPlan
from tailrace.cli.daemon import Daemon, Launch
from tailrace.config.properties import read_properties


def plan_of(folder: Path, broker_count: int, port: int = 9092) -> ClusterPlan:
    plan = ClusterPlan.make(folder)
    plan.grow(broker_count, port)
    return plan


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, 3)
    plan.brokers[2].daemon = Daemon(12345, "67")
    plan.settings = {"num.partitions": "6"}
    plan.save()
    assert ClusterPlan.load(tmp_path) == plan
    assert [path.name for path in tmp_path.iterdir()] == [PLAN_FILE_NAME]


def test_secrets_are_in_files_of_their_owner(tmp_path: Path) -> None:
    """They were in the command lines of brokers, where every user of the machine sees them."""
    plan = plan_of(tmp_path, 2)
    plan.settings = {"ssl.key.password": "a=b \\ secret "}
    plan.save()
    file = plan.save_config(2)
    assert file == tmp_path / "broker-2.properties"
    assert {entry.name: entry.value for entry in read_properties(file)} == plan.broker_settings(2)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    plan.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_plan_has_none(tmp_path: Path) -> None:
    assert ClusterPlan.load(tmp_path) is None
    with pytest.raises(click.ClickException, match="create one with `tailrace cluster start --brokers 3`"):
        ClusterPlan.require(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"zookeeper": {}, "brokers": {}, "settings": {}}', "null"])
def test_a_file_that_is_no_plan_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / PLAN_FILE_NAME).write_text(text)
    with pytest.raises(click.ClickException, match=PLAN_FILE_NAME):
        ClusterPlan.load(tmp_path)


def test_ports_follow_each_other_and_stay_when_the_cluster_grows(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, 2, 19092)
    plan.grow(4, 19092)
    assert [(number, broker.address) for number, broker in plan.brokers.items()] == [
        (1, "127.0.0.1:19092"),
        (2, "127.0.0.1:19093"),
        (3, "127.0.0.1:19094"),
        (4, "127.0.0.1:19095"),
    ]


def test_with_port_0_every_broker_gets_a_free_one(tmp_path: Path) -> None:
    ports = [broker.port for broker in plan_of(tmp_path, 3, 0).brokers.values()]
    assert len(set(ports)) == 3
    assert min(ports) > 0


@pytest.mark.parametrize(
    ("broker_count", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_topics_survive_one_broker_unless_the_user_says_otherwise(
    tmp_path: Path, broker_count: int, replicas: str, in_sync: str
) -> None:
    plan = plan_of(tmp_path, broker_count)
    settings = plan.broker_settings(1)
    assert (settings["default.replication.factor"], settings["min.insync.replicas"]) == (replicas, in_sync)
    plan.settings["min.insync.replicas"] = "1"
    assert plan.broker_settings(1)["min.insync.replicas"] == "1"


def test_a_process_that_ended_is_not_taken_for_another_with_its_id(tmp_path: Path) -> None:
    daemon = Launch(["--version"], tmp_path / "version.log").daemon
    assert daemon.is_running
    assert not Daemon(daemon.pid, daemon.began + "0").is_running
    assert daemon.wait(60)
    assert not daemon.is_running


def test_a_command_that_cannot_start_says_why(tmp_path: Path) -> None:
    launch = Launch(["start", "--set", "no.such.option=1"], tmp_path / "broker-1.log")
    with pytest.raises(click.ClickException, match=r"broker-1 did not start: .*no\.such\.option"):
        launch.ready_line(30)
