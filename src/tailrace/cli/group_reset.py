"""`tailrace group reset`: change the committed offsets of a group."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.option import broker_options, json_option, run_with_cluster
from tailrace.cli.output import is_terminal, write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.client.admin.core import Admin
    from tailrace.client.cluster import Cluster
    from tailrace.client.group.offset import OffsetAndMetadata
    from tailrace.client.place import Place
    from tailrace.client.topic_partition import TopicPartition

_TO = "earliest|latest|OFFSET|TIME"


def _read_place(_context: click.Context, _parameter: click.Parameter, text: str | None) -> "Place | None":
    from tailrace.client.place import read_place

    if text is None:
        return None
    try:
        return read_place(int(text) if text.isascii() and text.isdigit() else text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("name")
@click.option(
    "--to",
    "place",
    callback=_read_place,
    metavar=_TO,
    help="New position: earliest, latest, an offset, or a time; -2h is two hours ago.",
)
@click.option("--shift-by", type=int, metavar="N", help="Move by this many offsets; a negative number moves back.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,1…]",
    help="Reset only these partitions; can be repeated.  [default: all with committed offsets]",
)
@click.option("--dry-run", is_flag=True, help="Show the new offsets without committing them.")
@json_option
@broker_options
def reset(
    name: str,
    place: "Place | None",
    shift_by: int | None,
    topics: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Change the committed offsets of the group NAME. It must have no members."""
    if (place is None) == (shift_by is None):
        raise click.UsageError("set exactly one of --to and --shift-by")

    async def ask(cluster: "Cluster") -> "dict[TopicPartition, tuple[int | None, int]]":
        from tailrace.client.admin.core import Admin

        return await _reset(Admin(cluster), name, place, shift_by, topics, dry_run=dry_run)

    changes = run_with_cluster(bootstrap_server, command_config, ask)
    rows = [(*target, "-" if old is None else old, new) for target, (old, new) in sorted(changes.items())]
    if as_json:
        write_json(_changes(name, changes, dry_run=dry_run))
    elif is_terminal():
        title = f"{name}: no offset was changed" if dry_run else f"{name} is reset"
        write_table(("topic", "partition", "from", "to"), rows, title)
    else:
        for topic, partition, old, new in rows:
            write_line(f"{'would reset' if dry_run else 'reset'} {topic}-{partition} from {old} to {new}")


def _changes(name: str, changes: "Mapping[TopicPartition, tuple[int | None, int]]", *, dry_run: bool) -> dict[str, Any]:
    return {
        "name": name,
        "dry_run": dry_run,
        "partitions": [
            {"topic": target.topic, "partition": target.partition, "from": old, "to": new}
            for target, (old, new) in sorted(changes.items())
        ],
    }


async def _reset(
    admin: "Admin", name: str, place: "Place | None", shift_by: int | None, topics: Iterable[str], *, dry_run: bool
) -> "dict[TopicPartition, tuple[int | None, int]]":
    """Return the old and the new offset of each partition."""
    if not dry_run:
        await _refuse_active(admin, name)
    committed = await admin.list_group_offsets(name)
    targets = await _targets(admin, topics, committed)
    if not targets:
        raise click.ClickException(f"group {name} has no committed offsets; choose topics with --topic")
    found = await _new_offsets(admin, targets, committed, place, shift_by)
    if not dry_run:
        for error in (await admin.alter_group_offsets(name, found)).values():
            if error is not None:
                raise error
    return {
        target: (committed[target].offset if target in committed else None, offset) for target, offset in found.items()
    }


async def _refuse_active(admin: "Admin", name: str) -> None:
    from tailrace.protocol.errors import ApiError, ErrorCode

    described = (await admin.describe_groups([name]))[name]
    if isinstance(described, ApiError):
        if described.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise described
        return  # the first commit creates a group
    if described.members:
        clients = sorted({f"{member.client_id} at {member.host}" for member in described.members})
        text = f"group {name} has {len(described.members)} active members ({', '.join(clients)}); stop them first"
        raise click.ClickException(text)


async def _targets(
    admin: "Admin", topics: Iterable[str], committed: "Mapping[TopicPartition, OffsetAndMetadata]"
) -> "list[TopicPartition]":
    """Return the partitions that the user chose, or all with committed offsets."""
    from tailrace.client.topic_partition import TopicPartition
    from tailrace.protocol.errors import ApiError

    targets: list[TopicPartition] = []
    for text in topics:
        topic, colon, numbers = text.rpartition(":") if ":" in text else (text, "", "")
        if colon and not all(number.isascii() and number.isdigit() for number in numbers.split(",")):
            raise click.UsageError(f"--topic: {text!r} is not TOPIC or TOPIC:0,1")
        described = (await admin.describe_topics([topic]))[topic]
        if isinstance(described, ApiError):
            raise described
        chosen = [int(number) for number in numbers.split(",")] if colon else range(len(described.partitions))
        for number in chosen:
            if number >= len(described.partitions):
                count = len(described.partitions)
                raise click.ClickException(f"topic {topic} has {count} partitions, none with the number {number}")
            targets.append(TopicPartition(topic, number))
    return targets or list(committed)


async def _new_offsets(
    admin: "Admin",
    targets: "Iterable[TopicPartition]",
    committed: "Mapping[TopicPartition, OffsetAndMetadata]",
    place: "Place | None",
    shift_by: int | None,
) -> "dict[TopicPartition, int]":
    """Return the new offset of each partition, limited to the offsets of its log."""
    from tailrace.client.offset import EARLIEST, LATEST
    from tailrace.client.topic_partition import TopicPartition

    by_topic: dict[str, list[int]] = {}
    for topic, partition in targets:
        by_topic.setdefault(topic, []).append(partition)
    found: dict[TopicPartition, int] = {}
    for topic, partitions in by_topic.items():
        first = await admin.list_offsets(topic, dict.fromkeys(partitions, EARLIEST))
        last = await admin.list_offsets(topic, dict.fromkeys(partitions, LATEST))
        at = {}
        if place is not None and place.offset is None:
            at = await admin.list_offsets(topic, dict.fromkeys(partitions, place.timestamp_ms))
        for partition in partitions:
            target = TopicPartition(topic, partition)
            if shift_by is not None:
                if target not in committed:
                    continue  # without a committed offset there is nothing to shift
                wanted = committed[target].offset + shift_by
            elif place is not None and place.offset is not None:
                wanted = place.offset
            else:
                wanted = at[partition].offset if at[partition].offset >= 0 else last[partition].offset
            found[target] = min(max(wanted, first[partition].offset), last[partition].offset)
    return found
