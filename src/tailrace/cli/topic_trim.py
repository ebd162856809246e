"""`tailrace topic trim`: delete the oldest records of a topic, up to an offset or a time."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tailrace.cli.option import broker_options, json_option, run_with_cluster
from tailrace.cli.output import is_terminal, write_json, write_line, write_table
from tailrace.cli.start_point import StartPoint, parse_start_point

if TYPE_CHECKING:
    from tailrace.client.cluster import Cluster
    from tailrace.protocol.errors import ApiError


class Cut(NamedTuple):
    """The first offset of a partition, and the one that it has when its oldest records are deleted."""

    partition: int
    before: int
    after: int


def _read_point(_context: click.Context, _parameter: click.Parameter, text: str) -> StartPoint:
    try:
        point = parse_start_point("end" if text == "latest" else text)
    except ValueError:
        point = StartPoint("beginning")
    if point.word == "beginning":
        raise click.BadParameter(
            f"{text!r} is not an offset, latest, a time such as 2026-03-01T12:00:00, or a time ago such as -15m"
        )
    return point


@click.command()
@click.argument("name")
@click.option(
    "--before",
    "point",
    required=True,
    callback=_read_point,
    metavar="OFFSET|TIME|latest",
    help="Delete the records before this offset, or before the first record of this time; -7d is seven days ago. "
    "latest deletes all.",
)
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="N",
    help="Trim only this partition; can be repeated.  [default: all]",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted without deleting it.")
@json_option
@broker_options
def trim(
    name: str,
    point: StartPoint,
    partitions: tuple[int, ...],
    dry_run: bool,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Delete the oldest records of the topic NAME.

    The records cannot be restored. An offset after the end of a partition deletes all of its records, unless all
    partitions end before it.
    """

    async def ask(cluster: "Cluster") -> "tuple[list[Cut], ApiError | None]":
        cuts = await _find_cuts(cluster, name, point, partitions)
        return (cuts, None) if dry_run else await _delete(cluster, name, cuts)

    cuts, error = run_with_cluster(bootstrap_server, command_config, ask)
    if as_json:
        found = [{"partition": number, "from": before, "to": after} for number, before, after in cuts]
        write_json({"name": name, "dry_run": dry_run, "partitions": found})
    elif is_terminal():
        title = f"{name}: nothing was deleted" if dry_run else f"{name} is trimmed"
        rows = [(number, before, after, after - before) for number, before, after in cuts]
        write_table(("partition", "from", "to", "offsets"), rows, title)
    else:
        for number, before, after in cuts:
            write_line(f"{'would trim' if dry_run else 'trimmed'} {name}-{number} from {before} to {after}")
    if error is not None:
        raise error


async def _find_cuts(cluster: "Cluster", name: str, point: StartPoint, chosen: Sequence[int]) -> list[Cut]:
    from tailrace.client.offset import EARLIEST, LATEST, find_offsets

    count = len((await cluster.topic(name)).partitions)
    if missing := [number for number in chosen if number >= count]:
        raise click.ClickException(f"topic {name} has {count} partitions, none with the number {missing[0]}")
    partitions = sorted(set(chosen)) or range(count)
    first = await find_offsets(cluster, name, dict.fromkeys(partitions, EARLIEST))
    end = await find_offsets(cluster, name, dict.fromkeys(partitions, LATEST))
    if point.offset is not None:
        if point.offset > max(end.values()):
            ends = ", ".join(f"{end[number]} in partition {number}" for number in partitions)
            raise click.ClickException(f"offset {point.offset} is after the end of {name}, which is {ends}")
        wanted = dict.fromkeys(partitions, point.offset)
    elif point.timestamp_ms is not None:
        wanted = await find_offsets(cluster, name, dict.fromkeys(partitions, point.timestamp_ms))
    else:
        wanted = end
    return [Cut(number, first[number], max(first[number], min(wanted[number], end[number]))) for number in partitions]


async def _delete(cluster: "Cluster", name: str, cuts: Sequence[Cut]) -> "tuple[list[Cut], ApiError | None]":
    """Return the cuts that were made, and the error of one that was not."""
    from tailrace.client.admin.core import Admin
    from tailrace.client.topic_partition import TopicPartition

    wanted = {(name, cut.partition): cut.after for cut in cuts if cut.after > cut.before}
    outcomes = await Admin(cluster).delete_records(wanted) if wanted else {}
    made: list[Cut] = []
    failure: ApiError | None = None
    for cut in cuts:
        outcome = outcomes.get(TopicPartition(name, cut.partition), cut.after)
        if isinstance(outcome, int):
            made.append(cut._replace(after=outcome))
        else:
            failure = outcome
    return made, failure
