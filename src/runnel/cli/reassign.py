"""`runnel reassign`: move partitions to other brokers, with plans in Kafka's JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from runnel.cli.option import broker_options, json_option, run_with_cluster
from runnel.cli.output import write_json, write_line, write_table

if TYPE_CHECKING:
    from runnel.client.admin_reassignment import Reassignment
    from runnel.client.cluster import Cluster
    from runnel.client.metadata import ClusterView, Topic
    from runnel.client.topic_partition import TopicPartition
    from runnel.protocol.errors import ApiError

Plan = Mapping["TopicPartition", tuple[int, ...]]

_PLAN_ARGUMENT = click.argument("plan", type=click.File("r", encoding="utf-8"), metavar="FILE")


@click.group()
def reassign() -> None:
    """Move partitions to other brokers.

    `generate` prints a plan, `execute` begins it, `verify` and `list` say how far it is, and `cancel` calls it back.
    """


@reassign.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@click.option("--brokers", metavar="ID,…", help="Where the partitions shall be; all brokers if not given.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Copies; as many as now if not given.")
@click.option("--current", is_flag=True, help="Print where the partitions are now, to come back to later.")
@broker_options
def generate(
    topics: tuple[str, ...],
    brokers: str | None,
    replication_factor: int | None,
    current: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Print a plan that spreads TOPIC… evenly over brokers and their racks."""
    from runnel.client.admin import Admin
    from runnel.protocol.errors import ApiError

    async def ask(cluster: "Cluster") -> "tuple[ClusterView, dict[str, Topic | ApiError]]":
        admin = Admin(cluster)
        return await admin.describe_cluster(), await admin.describe_topics(topics)

    view, found = run_with_cluster(bootstrap_server, command_config, ask)
    racks = _racks(view, brokers)
    partitions: list[dict[str, object]] = []
    start = 0
    for name, topic in found.items():
        if isinstance(topic, ApiError):
            raise topic
        for index, replicas in enumerate(_placed(topic, racks, replication_factor, start, current)):
            partitions.append({"topic": name, "partition": index, "replicas": list(replicas)})
        start += len(topic.partitions)
    write_json({"version": 1, "partitions": partitions})


def _racks(view: "ClusterView", brokers: str | None) -> dict[int, str | None]:
    there: dict[int, str | None] = {node_id: node.rack for node_id, node in view.nodes.items()}
    if brokers is None:
        return there
    try:
        wanted = [int(text) for text in brokers.split(",")]
    except ValueError:
        raise click.BadParameter(f"{brokers!r} is not a list of broker ids", param_hint="--brokers") from None
    if missing := [broker for broker in wanted if broker not in there]:
        raise click.BadParameter(f"there is no broker {missing[0]}", param_hint="--brokers")
    return {broker: there[broker] for broker in wanted}


def _placed(
    topic: "Topic", racks: Mapping[int, str | None], factor: int | None, start: int, current: bool
) -> tuple[tuple[int, ...], ...]:
    from runnel.machines.controller.placement import place_replicas

    if current:
        return tuple(partition.replicas for partition in topic.partitions)
    return place_replicas(racks, len(topic.partitions), factor or len(topic.partitions[0].replicas), start)


@reassign.command()
@_PLAN_ARGUMENT
@click.option("--keep-replication-factor", is_flag=True, help="Refuse what would change the number of copies.")
@json_option
@broker_options
def execute(
    plan: IO[str],
    keep_replication_factor: bool,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Begin the plan in FILE ("-" reads it from stdin)."""
    from runnel.client.admin import Admin

    wanted = read_plan(plan)

    async def ask(cluster: "Cluster") -> "dict[TopicPartition, ApiError | None]":
        return await Admin(cluster).alter_partition_reassignments(
            wanted, keep_replication_factor=keep_replication_factor
        )

    _report("begun", run_with_cluster(bootstrap_server, command_config, ask), as_json)


@reassign.command()
@_PLAN_ARGUMENT
@json_option
@broker_options
def cancel(plan: IO[str], as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """Call back the partitions that FILE names; those that are there already stay."""
    from runnel.client.admin import Admin
    from runnel.protocol.errors import ErrorCode

    wanted = read_plan(plan)

    async def ask(cluster: "Cluster") -> "dict[TopicPartition, ApiError | None]":
        return await Admin(cluster).alter_partition_reassignments(dict.fromkeys(wanted))

    outcomes = run_with_cluster(bootstrap_server, command_config, ask)
    there = {partition for partition, error in outcomes.items() if _is(error, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)}
    _report("called back", {each: error for each, error in outcomes.items() if each not in there}, as_json)


def _is(error: "ApiError | None", code: int) -> bool:
    return error is not None and error.code == code


@reassign.command()
@_PLAN_ARGUMENT
@json_option
@broker_options
def verify(plan: IO[str], as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """Say how far the plan in FILE is; the exit status is 0 when all of it is done."""
    from runnel.client.admin import Admin

    wanted = read_plan(plan)

    async def ask(cluster: "Cluster") -> "tuple[dict[str, Any], dict[TopicPartition, Reassignment]]":
        admin = Admin(cluster)
        topics = await admin.describe_topics({name for name, _ in wanted})
        return topics, await admin.list_partition_reassignments()

    topics, moving = run_with_cluster(bootstrap_server, command_config, ask)
    states = {each: _state(topics[each.topic], each, replicas, moving) for each, replicas in wanted.items()}
    if as_json:
        write_json([{"topic": topic, "partition": index, "state": state} for (topic, index), state in states.items()])
    else:
        write_table(("partition", "state"), [(f"{topic}-{index}", state) for (topic, index), state in states.items()])
    if set(states.values()) != {"done"}:
        raise click.exceptions.Exit(1)


def _state(
    topic: Any, partition: "TopicPartition", replicas: tuple[int, ...], moving: "Mapping[TopicPartition, Reassignment]"
) -> str:
    from runnel.protocol.errors import ApiError

    if isinstance(topic, ApiError) or partition.partition >= len(topic.partitions):
        return "not there"
    if partition in moving:
        return "on its way"
    return "done" if topic.partitions[partition.partition].replicas == replicas else "elsewhere"


@reassign.command("list")
@json_option
@broker_options
def list_reassignments(as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """List the partitions that are on their way."""
    from runnel.client.admin import Admin

    async def ask(cluster: "Cluster") -> "dict[TopicPartition, Reassignment]":
        return await Admin(cluster).list_partition_reassignments()

    moving = run_with_cluster(bootstrap_server, command_config, ask)
    if as_json:
        write_json(
            [
                {
                    "topic": topic,
                    "partition": index,
                    "replicas": list(move.replicas),
                    "adding": list(move.adding),
                    "removing": list(move.removing),
                }
                for (topic, index), move in moving.items()
            ]
        )
    else:
        rows = [
            (f"{topic}-{index}", _ids(move.replicas), _ids(move.adding), _ids(move.removing))
            for (topic, index), move in moving.items()
        ]
        write_table(("partition", "replicas", "adding", "removing"), rows)


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "-"


def _report(done: str, outcomes: "Mapping[TopicPartition, ApiError | None]", as_json: bool) -> None:
    if as_json:
        write_json(
            [
                {"topic": topic, "partition": index, "error": None if error is None else str(error)}
                for (topic, index), error in outcomes.items()
            ]
        )
    else:
        for (topic, index), error in outcomes.items():
            write_line(f"{topic}-{index}: {done if error is None else error}")
    if any(outcomes.values()):
        raise click.exceptions.Exit(1)


def read_plan(file: IO[str]) -> dict["TopicPartition", tuple[int, ...]]:
    """The partitions of a plan in the JSON of Kafka's tool, and where they shall be."""
    from runnel.client.topic_partition import TopicPartition

    try:
        document = json.load(file)
        return {
            TopicPartition(str(each["topic"]), int(each["partition"])): tuple(
                int(broker) for broker in each["replicas"]
            )
            for each in document["partitions"]
        }
    except (ValueError, KeyError, TypeError) as error:
        name = getattr(file, "name", "the plan")
        raise click.BadParameter(
            f'{name} is no plan of the form {{"partitions": [{{"topic": …, "partition": …, "replicas": […]}}]}}'
        ) from error
