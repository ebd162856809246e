"""`tailrace topic offsets`: the offsets at which the partitions of a topic begin and end, or that belong to a time."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.base.sentinel import NO_OFFSET
from tailrace.cli.option import broker_options, json_option, run_with_cluster
from tailrace.cli.output import is_terminal, write_json, write_line, write_table
from tailrace.cli.start_point import parse_start_point

if TYPE_CHECKING:
    from tailrace.client.cluster import Cluster


def read_time(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """Return the time of an option in milliseconds since the epoch."""
    if text is None:
        return None
    try:
        timestamp_ms = parse_start_point(text).timestamp_ms
    except ValueError:
        timestamp_ms = None
    if timestamp_ms is None:
        raise click.BadParameter(f"{text!r} is not a time such as 2026-03-01T12:00:00 or a time ago such as -15m")
    return timestamp_ms


@click.command()
@click.argument("name")
@click.option(
    "--time",
    "timestamp_ms",
    callback=read_time,
    metavar="TIME",
    help="Also show the first offset at or after this time; -2h is two hours ago.",
)
@json_option
@broker_options
def offsets(
    name: str, timestamp_ms: int | None, as_json: bool, bootstrap_server: str | None, command_config: Path | None
) -> None:
    """Show the first offset and the end of each partition of the topic NAME."""

    async def ask(cluster: "Cluster") -> list[dict[str, int | None]]:
        from tailrace.client.offset import EARLIEST, LATEST, list_offsets

        partitions = range(len((await cluster.topic(name)).partitions))
        first = await list_offsets(cluster, name, dict.fromkeys(partitions, EARLIEST))
        end = await list_offsets(cluster, name, dict.fromkeys(partitions, LATEST))
        rows: list[dict[str, int | None]] = [
            {"partition": number, "earliest": first[number].offset, "latest": end[number].offset}
            for number in partitions
        ]
        if timestamp_ms is not None:
            found = await list_offsets(cluster, name, dict.fromkeys(partitions, timestamp_ms))
            for number, row in enumerate(rows):
                row["at_time"] = None if found[number].offset == NO_OFFSET else found[number].offset
        return rows

    rows = run_with_cluster(bootstrap_server, command_config, ask)
    if as_json:
        write_json({"name": name, "partitions": rows})
    elif is_terminal():
        titles = tuple(title.replace("_", " ") for title in rows[0])
        write_table(titles, [tuple("-" if value is None else value for value in row.values()) for row in rows])
    else:
        for row in rows:
            words = (f"{title.replace('_', ' ')} {'-' if value is None else value}" for title, value in row.items())
            write_line(" ".join(words))
