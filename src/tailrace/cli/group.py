"""`tailrace group`: list, describe, reset and delete consumer groups."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.group_reset import reset
from tailrace.cli.option import broker_options, json_option, run_with_cluster
from tailrace.cli.output import is_terminal, write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.client.admin.group import GroupDescription, GroupMemberDescription, ListedGroup, PartitionLag
    from tailrace.client.cluster import Cluster
    from tailrace.client.topic_partition import TopicPartition
    from tailrace.protocol.errors import ApiError

_STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
_TYPES = ("classic", "consumer")


@click.group()
def group() -> None:
    """List, describe, reset and delete consumer groups."""


group.add_command(reset)


@group.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(_STATES, case_sensitive=False),
    multiple=True,
    help="List only groups in this state; can be repeated.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice(_TYPES),
    multiple=True,
    help="List only groups of this protocol; can be repeated.",
)
@json_option
@broker_options
def list_groups(
    states: tuple[str, ...],
    types: tuple[str, ...],
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """List the groups of all brokers."""
    from tailrace.client.admin.core import Admin

    async def ask(cluster: "Cluster") -> "list[ListedGroup]":
        return await Admin(cluster).list_groups(states=states, types=types)

    groups = run_with_cluster(bootstrap_server, command_config, ask)
    if as_json:
        write_json(
            [
                {
                    "name": found.group_id,
                    "type": found.group_type,
                    "state": found.state,
                    "protocol": found.protocol_type,
                }
                for found in groups
            ]
        )
    elif is_terminal():
        write_table(("group", "type", "state"), [(found.group_id, found.group_type, found.state) for found in groups])
    else:
        for found in groups:
            write_line(found.group_id)


@group.command()
@click.argument("name")
@json_option
@broker_options
def describe(name: str, as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """Show the members of the group NAME, with their partitions, committed offsets and lag."""
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ApiError

    async def ask(cluster: "Cluster") -> "tuple[GroupDescription, dict[TopicPartition, PartitionLag]]":
        admin = Admin(cluster)
        found = (await admin.describe_groups([name]))[name]
        if isinstance(found, ApiError):
            raise found
        return found, await admin.group_lag(name, found.owners)

    found, lags = run_with_cluster(bootstrap_server, command_config, ask)
    if as_json:
        write_json(_description(found, lags))
    else:
        _write_description(found, lags)


@group.command()
@click.argument("name")
@click.option("--if-exists", is_flag=True, help="Succeed if the group does not exist.")
@json_option
@broker_options
def delete(
    name: str, if_exists: bool, as_json: bool, bootstrap_server: str | None, command_config: Path | None
) -> None:
    """Delete the group NAME and its committed offsets. It must have no members."""
    from tailrace.client.admin.core import Admin
    from tailrace.protocol.errors import ErrorCode

    async def ask(cluster: "Cluster") -> "ApiError | None":
        return (await Admin(cluster).delete_groups([name]))[name]

    error = run_with_cluster(bootstrap_server, command_config, ask)
    if error is not None:
        if not (if_exists and error.code is ErrorCode.GROUP_ID_NOT_FOUND):
            raise error
    elif as_json:
        write_json({"name": name, "deleted": True})
    else:
        write_line(f"deleted group {name}")


def _description(found: "GroupDescription", lags: "dict[TopicPartition, PartitionLag]") -> dict[str, Any]:
    owners = found.owners
    return {
        "name": found.group_id,
        "type": found.group_type,
        "state": found.state,
        "assignor": found.assignor,
        "coordinator": found.coordinator_id,
        "lag": _total(lags),
        "partitions": [
            {
                "topic": target.topic,
                "partition": target.partition,
                "committed": None if lag.committed is None else lag.committed.offset,
                "end": lag.end_offset,
                "lag": lag.lag,
                "member": owners[target].member_id if target in owners else None,
            }
            for target, lag in sorted(lags.items())
        ],
        "members": [_member(member) for member in found.members],
    }


def _member(member: "GroupMemberDescription") -> dict[str, Any]:
    described = {
        "member": member.member_id,
        "instance": member.group_instance_id,
        "client": member.client_id,
        "host": member.host,
        "partitions": [str(target) for target in sorted(member.assignment)],
    }
    if set(member.target) != set(member.assignment):
        described["target"] = [str(target) for target in sorted(member.target)]
    return described


def _write_description(found: "GroupDescription", lags: "dict[TopicPartition, PartitionLag]") -> None:
    count, lag = len(found.members), _shown(_total(lags))
    write_line(
        f"group {found.group_id} · {found.group_type} · {found.state} · assignor {found.assignor or '-'}"
        f" · coordinator {found.coordinator_id} · {count} {'member' if count == 1 else 'members'} · lag {lag}"
    )
    owners = found.owners
    rows = [
        (
            target.topic,
            target.partition,
            _shown(None if lag.committed is None else lag.committed.offset),
            _shown(lag.end_offset),
            _shown(lag.lag),
            owners[target].member_id if target in owners else "-",
        )
        for target, lag in sorted(lags.items())
    ]
    members = [
        (
            member.member_id,
            _shown(member.group_instance_id),
            member.client_id,
            member.host,
            ",".join(str(target) for target in sorted(member.assignment)) or "-",
        )
        for member in sorted(found.members, key=lambda member: member.member_id)
    ]
    if is_terminal():
        if rows:
            write_table(("topic", "partition", "committed", "end", "lag", "member"), rows)
        if members:
            write_table(("member", "instance", "client", "host", "partitions"), members)
        return
    for topic, partition, committed, end, lag, member_id in rows:
        write_line(f"partition {topic}-{partition} committed {committed} end {end} lag {lag} member {member_id}")
    for member_id, instance, client, host, partitions in members:
        write_line(f"member {member_id} instance {instance} client {client} host {host} partitions {partitions}")


def _total(lags: "dict[TopicPartition, PartitionLag]") -> int | None:
    """Return the lag of all partitions with a committed offset; None if the group has committed nothing."""
    known = [lag.lag for lag in lags.values() if lag.lag is not None]
    return sum(known) if known else None


def _shown(value: object) -> str:
    return "-" if value is None else str(value)
