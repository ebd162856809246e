"""`tailrace consume`: print the records of a topic."""

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.codec_option import codec_options, decoding, open_codecs
from tailrace.cli.consume_group import GroupJob, print_shared
from tailrace.cli.option import broker_options, json_option, run_with_cluster, run_with_consumer
from tailrace.cli.output import has_colour
from tailrace.cli.record_format import Format, json_format, plain_format, terminal_format
from tailrace.cli.start_point import StartPoint, parse_start_point, seek

if TYPE_CHECKING:
    from tailrace.client.cluster import Cluster
    from tailrace.client.fetch.reader import Reader

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
    help="Start at the beginning, the end, an offset, a time (2026-03-01T12:00:00), or a time ago (-15m).",
)
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("--until-end", is_flag=True, help="Stop at the log end offset of the time when the command started.")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Read only this partition; can be repeated.",
)
@click.option("--isolation", type=click.Choice(_ISOLATIONS), default=_ISOLATIONS[0], show_default=True)
@click.option("--key-separator", metavar="TEXT", help="Print the key and this separator before the value.")
@click.option(
    "--group",
    metavar="ID",
    help="Read as a member of this group, from its committed offsets; --from applies where it has none.",
)
@codec_options
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
    **codec_settings: Any,
) -> None:
    """Print the records of TOPIC until Ctrl-C, --count or --until-end.

    With --value or --key, records are printed as JSON. They are read with --schema or --schema-id, or else with the
    schema that each was written with.
    """
    if group is not None:
        _check_shared(start, partitions)
    with open_codecs(topic, codec_settings, is_writer=False) as codecs:
        record_format = decoding(_choose_format(as_json, key_separator), codecs)
        if group is not None:
            settings = {"group.id": group, "isolation.level": isolation, "auto.offset.reset": _RESETS[start.word]}
            shared = GroupJob(topic, count, until_end, record_format)
            with contextlib.suppress(KeyboardInterrupt):
                run_with_consumer(bootstrap_server, command_config, settings, lambda found: print_shared(found, shared))
            return
        job = _Job(topic, start, count, until_end, tuple(dict.fromkeys(partitions)), isolation, record_format)
        with contextlib.suppress(KeyboardInterrupt):  # the usual way to stop
            run_with_cluster(bootstrap_server, command_config, lambda cluster: _print_records(cluster, job))


def _check_shared(start: StartPoint, partitions: tuple[int, ...]) -> None:
    if partitions:
        raise click.UsageError("--partition and --group cannot be combined: a group assigns partitions to its members")
    if not start.word:
        text = "--from with --group takes only beginning or end; to change committed offsets, stop the members"
        raise click.UsageError(f"{text} and use tailrace group reset")


def _choose_format(as_json: bool, key_separator: str | None) -> Format:
    if as_json:
        return json_format
    if key_separator is None and has_colour():
        return terminal_format
    return plain_format(None if key_separator is None else key_separator.encode())


async def _print_records(cluster: "Cluster", job: _Job) -> None:
    from tailrace.client.fetch.isolation import Isolation
    from tailrace.client.fetch.reader import Reader
    from tailrace.client.fetch.request import FetchOptions
    from tailrace.client.offset import EARLIEST

    options = FetchOptions(isolation=Isolation[job.isolation.upper()])
    # Retention may delete records before a slow reader gets them; the remaining ones are still printed.
    reader = Reader(cluster, job.topic, partitions=job.partitions or None, options=options, reset=EARLIEST)
    async with reader:
        try:
            await seek(reader, job.start)
        except ValueError as error:
            raise click.ClickException(f"{job.topic}: {error}") from None
        await _print_fetched(reader, job)


async def _print_fetched(reader: "Reader", job: _Job) -> None:
    from tailrace.client.offset import LATEST

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
