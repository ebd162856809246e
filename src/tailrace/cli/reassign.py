"""`tailrace reassign`: move partitions to other brokers, with plans in Kafka's JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from tailrace.cli.option import broker_options, json_option, run_with_cluster
from tailrace.cli.output import write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.cli.reassign_watch import Moves
    from tailrace.client.admin.core import Admin
    from tailrace.client.admin.reassignment import Reassignment
    from tailrace.client.cluster import Cluster
    from tailrace.client.metadata import ClusterView, Topic
    from tailrace.client.topic_partition import TopicPartition
    from tailrace.protocol.errors import ApiError

Plan = Mapping["TopicPartition", tuple[int, ...]]

_PRESERVE_OPTION = click.option(
    "--preserve-throttles",
    is_flag=True,
    help="Keep the configs that --throttle has set, even when the plan is complete.",
)
_PLAN_ARGUMENT = click.argument("plan", type=click.File("r", encoding="utf-8"), metavar="FILE")


@click.group()
def reassign() -> None:
    """Move partitions to other brokers.

    `generate` prints a plan, `execute` starts it, `verify` and `list` show its progress, and `cancel` reverts it.
    """


@reassign.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@click.option("--brokers", metavar="ID,…", help="Ids of the target brokers.  [default: all brokers]")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Number of replicas.  [default: as many as now]")
@click.option("--current", is_flag=True, help="Print the current assignment, as a plan to return to it.")
@broker_options
def generate(
    topics: tuple[str, ...],
    brokers: str | None,
    replication_factor: int | None,
    current: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Print a plan that distributes the partitions of TOPIC… evenly over brokers and racks."""
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ApiError

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
        raise click.BadParameter(
            f"{brokers!r} is not a list of broker ids such as 1,2,3", param_hint="--brokers"
        ) from None
    if missing := [broker for broker in wanted if broker not in there]:
        raise click.BadParameter(f"there is no broker {missing[0]}", param_hint="--brokers")
    return {broker: there[broker] for broker in wanted}


def _placed(
    topic: "Topic", racks: Mapping[int, str | None], factor: int | None, start: int, current: bool
) -> tuple[tuple[int, ...], ...]:
    from tailrace.machines.controller.placement import place_replicas

    if current:
        return tuple(partition.replicas for partition in topic.partitions)
    return place_replicas(racks, len(topic.partitions), factor or len(topic.partitions[0].replicas), start)


@reassign.command()
@_PLAN_ARGUMENT
@click.option("--keep-replication-factor", is_flag=True, help="Reject a plan that changes the number of replicas.")
@click.option(
    "--throttle",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="Bytes a second that each broker may send and fetch for the plan; `verify` removes the limit.",
)
@json_option
@broker_options
def execute(
    plan: IO[str],
    keep_replication_factor: bool,
    throttle: int | None,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Start the plan in FILE ("-" for stdin)."""
    from tailrace.client.admin.core import Admin

    wanted = read_plan(plan)

    async def ask(cluster: "Cluster") -> "dict[TopicPartition, ApiError | None]":
        admin = Admin(cluster)
        if throttle is not None:
            # Set first, so that no partition moves without the limit.
            await _hold_back(admin, wanted, throttle)
        return await admin.alter_partition_reassignments(wanted, keep_replication_factor=keep_replication_factor)

    _report("begun", run_with_cluster(bootstrap_server, command_config, ask), as_json)


async def _hold_back(admin: "Admin", plan: Plan, bytes_per_second: int) -> None:
    from tailrace.client.admin.reassignment_throttle import find_throttled, set_throttle
    from tailrace.client.metadata import Topic
    from tailrace.client.topic_partition import TopicPartition

    moving = await admin.list_partition_reassignments()
    topics = await admin.describe_topics({name for name, _ in (*plan, *moving)})
    now = {
        TopicPartition(name, partition.index): partition.replicas
        for name, topic in topics.items()
        if isinstance(topic, Topic)
        for partition in topic.partitions
    }
    await set_throttle(admin, find_throttled(now, moving, plan), bytes_per_second)


async def _let_go(admin: "Admin", plan: Plan, *, is_kept: bool) -> bool:
    """Remove the throttle of a plan that has no partition in progress; returns whether there was one."""
    from tailrace.client.admin.reassignment_throttle import clear_throttle

    moving = await admin.list_partition_reassignments()
    if is_kept or any(partition in moving for partition in plan):
        return False
    # Other plans may be in progress at the same rate, as their topics show. Unlike Kafka's tool we keep their rate.
    topics = {name for name, _ in plan} - {name for name, _ in moving}
    return await clear_throttle(admin, sorted(topics), with_rates=not moving)


@reassign.command()
@_PLAN_ARGUMENT
@_PRESERVE_OPTION
@json_option
@broker_options
def cancel(
    plan: IO[str],
    preserve_throttles: bool,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Revert the reassignments of the partitions in FILE that are still in progress."""
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ErrorCode

    wanted = read_plan(plan)

    async def ask(cluster: "Cluster") -> "dict[TopicPartition, ApiError | None]":
        admin = Admin(cluster)
        outcomes = await admin.alter_partition_reassignments(dict.fromkeys(wanted))
        await _let_go(admin, wanted, is_kept=preserve_throttles)
        return outcomes

    outcomes = run_with_cluster(bootstrap_server, command_config, ask)
    there = {partition for partition, error in outcomes.items() if _is(error, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)}
    _report("called back", {each: error for each, error in outcomes.items() if each not in there}, as_json)


def _is(error: "ApiError | None", code: int) -> bool:
    return error is not None and error.code == code


@reassign.command()
@_PLAN_ARGUMENT
@_PRESERVE_OPTION
@click.option("--wait", is_flag=True, help="Show the progress until no partition of the plan is in progress.")
@json_option
@broker_options
def verify(
    plan: IO[str],
    preserve_throttles: bool,
    wait: bool,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Show the progress of the plan in FILE; the exit status is 0 if it is complete.

    When no partition of it is in progress, the configs of `execute --throttle` are removed.
    """
    from tailrace.cli.reassign_watch import watch
    from tailrace.client.admin.core import Admin

    wanted = read_plan(plan)

    async def ask(cluster: "Cluster") -> "tuple[dict[str, Any], Moves]":
        moves = await watch(cluster, wanted, is_waiting=wait)
        admin = Admin(cluster)
        topics = await admin.describe_topics({name for name, _ in wanted})
        await _let_go(admin, wanted, is_kept=preserve_throttles)
        return topics, moves

    topics, moves = run_with_cluster(bootstrap_server, command_config, ask)
    states = {each: _state(topics[each.topic], each, replicas, moves.moving) for each, replicas in wanted.items()}
    if as_json:
        write_json(
            [
                {"topic": topic, "partition": index, "state": state, "progress": moves.progress.get(each)}
                for each, state in states.items()
                for topic, index in [each]
            ]
        )
    else:
        rows = [(str(each), _with_progress(state, moves.progress.get(each))) for each, state in states.items()]
        write_table(("partition", "state"), rows)
    if set(states.values()) != {"done"}:
        raise click.exceptions.Exit(1)


def _with_progress(state: str, progress: float | None) -> str:
    return state if progress is None else f"{state}, {progress:.0%}"


def _state(
    topic: Any, partition: "TopicPartition", replicas: tuple[int, ...], moving: "Mapping[TopicPartition, Reassignment]"
) -> str:
    from tailrace.protocol.errors import ApiError

    if isinstance(topic, ApiError) or partition.partition >= len(topic.partitions):
        return "not there"
    if partition in moving:
        return "on its way"
    return "done" if topic.partitions[partition.partition].replicas == replicas else "elsewhere"


@reassign.command("list")
@json_option
@broker_options
def list_reassignments(as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """List the partitions that are being reassigned."""
    from tailrace.client.admin.core import Admin

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
    """Return the partitions and target replicas of a plan in the JSON of Kafka's tool."""
    from tailrace.client.topic_partition import TopicPartition

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
            f'{name} is not a plan of the form {{"partitions": [{{"topic": …, "partition": …, "replicas": […]}}]}}'
        ) from error
