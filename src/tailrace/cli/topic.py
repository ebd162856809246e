"""`tailrace topic`: create, list, describe, alter, trim and delete topics."""

import base64
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tailrace.cli.option import broker_options, json_option, read_pairs, run_with_cluster
from tailrace.cli.output import is_terminal, write_json, write_line, write_table
from tailrace.cli.topic_offset import offsets
from tailrace.cli.topic_trim import trim

if TYPE_CHECKING:
    from tailrace.client.admin.core import Config
    from tailrace.client.cluster import Cluster
    from tailrace.client.metadata import Topic
    from tailrace.protocol.errors import ApiError

T = TypeVar("T")

_CONFIG_OPTION = click.option(
    "--config",
    "configs",
    multiple=True,
    callback=read_pairs,
    metavar="NAME=VALUE",
    help="Topic config; can be repeated.",
)


@click.group()
def topic() -> None:
    """Create, list, describe, alter, trim and delete topics."""


topic.add_command(offsets)
topic.add_command(trim)


@topic.command()
@click.argument("name")
@click.option(
    "--partitions", type=click.IntRange(min=1), help="Number of partitions.  [default: the broker's num.partitions]"
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Number of replicas.  [default: the broker's default.replication.factor]",
)
@_CONFIG_OPTION
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists already.")
@json_option
@broker_options
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Mapping[str, str],
    if_not_exists: bool,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Create the topic NAME."""
    from tailrace.client.admin.core import BROKER_DEFAULT, Admin, CreatedTopic, NewTopic
    from tailrace.protocol.errors import ErrorCode

    new = NewTopic(name, partitions or BROKER_DEFAULT, replication_factor or BROKER_DEFAULT, configs)

    async def ask(cluster: "Cluster") -> "CreatedTopic | ApiError":
        return (await Admin(cluster).create_topics([new]))[name]

    created = run_with_cluster(bootstrap_server, command_config, ask)
    if not isinstance(created, CreatedTopic):
        if not (if_not_exists and created.code is ErrorCode.TOPIC_ALREADY_EXISTS):
            raise created
        return
    if as_json:
        write_json(
            {
                "name": name,
                "topic_id": format_topic_id(created.topic_id),
                "partitions": created.partition_count,
                "replication_factor": created.replication_factor,
            }
        )
    else:
        write_line(f"created topic {name} with {_count(created.partition_count, 'partition')}")


@topic.command("list")
@click.option("--internal", is_flag=True, help="Include internal topics.")
@json_option
@broker_options
def list_topics(internal: bool, as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """List all topics."""
    from tailrace.client.admin.core import Admin

    async def ask(cluster: "Cluster") -> "list[Topic]":
        return await Admin(cluster).list_topics(include_internal=internal)

    topics = run_with_cluster(bootstrap_server, command_config, ask)
    if as_json:
        write_json([_summary(topic) for topic in topics])
    elif is_terminal():
        rows = [(found.name, len(found.partitions), _replication_factor(found)) for found in topics]
        write_table(("topic", "partitions", "replication factor"), rows)
    else:
        for found in topics:
            write_line(found.name)


@topic.command()
@click.argument("name")
@json_option
@broker_options
def describe(name: str, as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """Show the partitions and configs of the topic NAME."""
    from tailrace.client.admin.core import Admin, ResourceType
    from tailrace.protocol.errors import ApiError

    async def ask(cluster: "Cluster") -> "tuple[Topic, list[Config]]":
        admin = Admin(cluster)
        found = (await admin.describe_topics([name]))[name]
        if isinstance(found, ApiError):
            raise found
        return found, await admin.describe_configs(ResourceType.TOPIC, name)

    found, configs = run_with_cluster(bootstrap_server, command_config, ask)
    if as_json:
        write_json(_description(found, configs))
    else:
        _write_description(found, [config for config in configs if not config.is_default])


@topic.command()
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), help="New number of partitions, larger than the current one.")
@_CONFIG_OPTION
@click.option(
    "--delete-config",
    "deletions",
    multiple=True,
    metavar="NAME",
    help="Topic config to reset to its default; can be repeated.",
)
@json_option
@broker_options
def alter(
    name: str,
    partitions: int | None,
    configs: Mapping[str, str],
    deletions: tuple[str, ...],
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Change the configs of the topic NAME, or add partitions."""
    from tailrace.client.admin.core import Admin, ResourceType

    if partitions is None and not configs and not deletions:
        raise click.UsageError("nothing to change: set --partitions, --config or --delete-config")
    changes: dict[str, str | None] = {**configs, **dict.fromkeys(deletions)}

    async def ask(cluster: "Cluster") -> None:
        admin = Admin(cluster)
        if changes:
            await admin.alter_configs(ResourceType.TOPIC, name, changes)
        if partitions is not None and (error := (await admin.create_partitions({name: partitions}))[name]):
            raise error

    run_with_cluster(bootstrap_server, command_config, ask)
    _write_done("altered", name, as_json)


@topic.command()
@click.argument("name")
@click.option("--if-exists", is_flag=True, help="Succeed if the topic does not exist.")
@json_option
@broker_options
def delete(
    name: str, if_exists: bool, as_json: bool, bootstrap_server: str | None, command_config: Path | None
) -> None:
    """Delete the topic NAME and all its records."""
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ErrorCode

    async def ask(cluster: "Cluster") -> "ApiError | None":
        return (await Admin(cluster).delete_topics([name]))[name]

    error = run_with_cluster(bootstrap_server, command_config, ask)
    if error is None:
        _write_done("deleted", name, as_json)
    elif not (if_exists and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        raise error


def format_topic_id(topic_id: uuid.UUID) -> str:
    """Return a topic id in the format of Kafka's tools."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _write_done(verb: str, name: str, as_json: bool) -> None:
    if as_json:
        write_json({"name": name, verb: True})
    else:
        write_line(f"{verb} topic {name}")


def _summary(found: "Topic") -> dict[str, Any]:
    return {
        "name": found.name,
        "topic_id": format_topic_id(found.topic_id),
        "internal": found.is_internal,
        "partitions": len(found.partitions),
        "replication_factor": _replication_factor(found),
    }


def _description(found: "Topic", configs: "list[Config]") -> dict[str, Any]:
    return {
        **_summary(found),
        "partitions": [
            {
                "partition": partition.index,
                "leader": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.in_sync_replicas),
            }
            for partition in found.partitions
        ],
        "configs": {config.name: {"value": config.value, "default": config.is_default} for config in configs},
    }


def _write_description(found: "Topic", configs: "list[Config]") -> None:
    write_line(
        f"topic {found.name} · id {format_topic_id(found.topic_id)} · {_count(len(found.partitions), 'partition')}"
        f" · replication factor {_replication_factor(found)}"
    )
    rows = [
        (
            partition.index,
            partition.leader_id,
            ",".join(map(str, partition.replicas)),
            ",".join(map(str, partition.in_sync_replicas)),
        )
        for partition in found.partitions
    ]
    if is_terminal():
        write_table(("partition", "leader", "replicas", "in sync"), rows)
        if configs:
            write_table(("setting", "value"), [(config.name, config.value) for config in configs])
        return
    for index, leader, replicas, in_sync in rows:
        write_line(f"partition {index} leader {leader} replicas {replicas} isr {in_sync}")
    for config in configs:
        write_line(f"config {config.name}={config.value}")


def _replication_factor(found: "Topic") -> int:
    return max((len(partition.replicas) for partition in found.partitions), default=0)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
