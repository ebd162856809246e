"""`runnel consume`: the records of a topic on stdout."""

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runnel.cli.consume_group import GroupJob, print_shared
from runnel.cli.option import broker_options, json_option, run_with_cluster, run_with_consumer
from runnel.cli.output import has_colour
from runnel.cli.record_format import Format, json_format, plain_format, terminal_format
from runnel.cli.start_point import StartPoint, parse_start_point, seek

if TYPE_CHECKING:
    from runnel.client.cluster import Cluster
    from runnel.client.reader import Reader

_RESETS = {"beginning": "earliest", "end": "latest"}
_ISOLATIONS = ("read_uncommitted", "read_committed")


def _read_start(_context: click.Context, _parameter: click.Parameter, text: str) -> StartPoint:
    try:
        return parse_start_point(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@dataclass(frozen=True, slots=True)
class _Job:
    topic: str
    start: StartPoint
    count: int | None
    until_end: bool
    partitions: tuple[int, ...]
    isolation: str
    format: Format


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    default="end",
    show_default=True,
    callback=_read_start,
    metavar="beginning|end|OFFSET|TIME",
    help="Where to begin; a time is 2026-03-01T12:00:00 or, counted back from now, -15m.",
)
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("--until-end", is_flag=True, help="Stop where the log ended when the command began.")
@click.option(
    "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only these; repeat as needed."
)
@click.option("--isolation", type=click.Choice(_ISOLATIONS), default=_ISOLATIONS[0], show_default=True)
@click.option("--key-separator", metavar="TEXT", help="Print the key and this before the value.")
@click.option(
    "--group",
    metavar="ID",
    help="Share the partitions with this group and go on where it stopped; --from counts where it has no offset yet.",
)
@json_option
@broker_options
def consume(
    topic: str,
    start: StartPoint,
    count: int | None,
    until_end: bool,
    partitions: tuple[int, ...],
    isolation: str,
    key_separator: str | None,
    group: str | None,
    as_json: bool,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Print the records of TOPIC until Ctrl-C, or as many as asked for."""
    record_format = _choose_format(as_json, key_separator)
    if group is not None:
        _check_shared(start, partitions)
        settings = {"group.id": group, "isolation.level": isolation, "auto.offset.reset": _RESETS[start.word]}
        shared = GroupJob(topic, count, until_end, record_format)
        with contextlib.suppress(KeyboardInterrupt):
            run_with_consumer(bootstrap_server, command_config, settings, lambda found: print_shared(found, shared))
        return
    job = _Job(topic, start, count, until_end, tuple(dict.fromkeys(partitions)), isolation, record_format)
    with contextlib.suppress(KeyboardInterrupt):  # the usual end of reading
        run_with_cluster(bootstrap_server, command_config, lambda cluster: _print_records(cluster, job))


def _check_shared(start: StartPoint, partitions: tuple[int, ...]) -> None:
    if partitions:
        raise click.UsageError("--partition: a group divides the partitions among its members; leave one of them out")
    if not start.word:
        text = "--from: a group begins where it stopped, or at the beginning or the end; to move it, stop its members"
        raise click.UsageError(f"{text} and use runnel group reset")


def _choose_format(as_json: bool, key_separator: str | None) -> Format:
    if as_json:
        return json_format
    if key_separator is None and has_colour():
        return terminal_format
    return plain_format(None if key_separator is None else key_separator.encode())


async def _print_records(cluster: "Cluster", job: _Job) -> None:
    from runnel.client.fetch import FetchOptions
    from runnel.client.isolation import Isolation
    from runnel.client.offset import EARLIEST
    from runnel.client.reader import Reader

    options = FetchOptions(isolation=Isolation[job.isolation.upper()])
    # Retention may overtake a slow reader; what is left is then still worth printing.
    reader = Reader(cluster, job.topic, partitions=job.partitions or None, options=options, reset=EARLIEST)
    async with reader:
        try:
            await seek(reader, job.start)
        except ValueError as error:
            raise click.ClickException(f"{job.topic}: {error}") from None
        await _print_fetched(reader, job)


async def _print_fetched(reader: "Reader", job: _Job) -> None:
    from runnel.client.offset import LATEST

    ends = await reader.find_offsets(LATEST) if job.until_end else {}
    unfinished = {partition for partition, end in ends.items() if reader.position(partition) < end}
    printed = 0
    write = sys.stdout.buffer.write
    while unfinished or not job.until_end:
        fetched = await anext(reader)
        for record in fetched.records():
            if job.until_end and record.offset >= ends[fetched.partition]:
                break
            write(job.format(job.topic, fetched.partition, record))
            printed += 1
            if printed == job.count:
                return
        sys.stdout.flush()
        if job.until_end and fetched.next_offset >= ends[fetched.partition]:
            unfinished.discard(fetched.partition)
