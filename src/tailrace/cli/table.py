"""`tailrace table`: topics as tables of Delta Lake and Iceberg."""

from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.option import json_option, read_duration_s
from tailrace.cli.output import write_json, write_line, write_table
from tailrace.cli.table_place import open_table, place_options
from tailrace.cli.table_sync import sync

if TYPE_CHECKING:
    from tailrace.spark.connector.lake.note import Noted

_SHOWN = 10


@click.group()
def table() -> None:
    """Write topics to Delta and Iceberg tables, and maintain these."""


table.add_command(sync)


@table.command()
@place_options
@json_option
def show(path: str | None, table: str | None, catalog: dict[str, str], as_json: bool) -> None:
    """Show the columns, the files and the newest batches of a table.

    PATH is a Delta table, or the warehouse of the Iceberg table --table.
    """
    found = open_table(path, table, catalog)
    files = found.list_files()
    batches = [_described(each) for each in islice(found.list_notes(), _SHOWN)]
    described = {
        "table": str(found),
        "version": found.version,
        "columns": {each.name: str(each.type) for each in found.columns},
        "partition_by": list(found.partition_by),
        "files": len(files),
        "bytes": sum(each.size_bytes for each in files),
        "rows": sum(each.row_count for each in files),
        "batches": batches,
    }
    if as_json:
        write_json(described)
        return
    size = f"{described['rows']} rows, {len(files)} files, {described['bytes']} bytes"
    write_line(f"{found}: version {found.version}, {size}")
    write_line(f"columns: {', '.join(f'{each.name} {each.type}' for each in found.columns)}")
    if found.partition_by:
        write_line(f"partitioned by: {', '.join(found.partition_by)}")
    write_table(
        ("version", "time", "flow", "batch", "offsets"),
        [(*list(each.values())[:-1], _shown(each["offsets"])) for each in batches],
    )


@table.command()
@place_options
@click.option("--topic", required=True, help="Topic that the table is written from.")
@click.option("--partition", type=click.IntRange(0), required=True, metavar="N", help="Partition of the topic.")
@click.option("--offset", type=click.IntRange(0), required=True, metavar="N", help="Offset in the partition.")
@json_option
def version(
    path: str | None, table: str | None, catalog: dict[str, str], topic: str, partition: int, offset: int, as_json: bool
) -> None:
    """Print the first version of a table that holds the record at an offset.

    The version of an Iceberg table is the id of a snapshot. PATH is a Delta table, or the warehouse of the Iceberg
    table --table.
    """
    from tailrace.client.topic_partition import TopicPartition
    from tailrace.spark.connector.lake.note import find_version

    found = open_table(path, table, catalog)
    noted = find_version(found.list_notes(), TopicPartition(topic, partition), offset)
    if noted is None:
        raise click.ClickException(f"no version of {found} that exists holds {topic}-{partition} offset {offset}")
    if as_json:
        write_json(_described(noted))
    else:
        write_line(str(noted.version))


@table.command()
@place_options
@json_option
def compact(path: str | None, table: str | None, catalog: dict[str, str], as_json: bool) -> None:
    """Write the small files of a table together, in this process.

    PATH is a Delta table, or the warehouse of the Iceberg table --table.
    """
    from tailrace.spark.connector.lake.maintenance import compact

    done = compact(open_table(path, table, catalog), files_min=2)
    if as_json:
        write_json({"removed": done.removed, "added": done.added})
    else:
        write_line(f"{done.removed} files were written together to {done.added}")


@table.command()
@place_options
@click.option(
    "--keep",
    "keep_s",
    required=True,
    callback=read_duration_s,
    metavar="DURATION",
    help="Keep the versions of this time, such as 24h, and files that were written in it.",
)
@json_option
def expire(path: str | None, table: str | None, catalog: dict[str, str], keep_s: float, as_json: bool) -> None:
    """Delete old versions of a table, with the files that only they need.

    Keep enough for readers that are at work, and for flows that write to the table: files of a batch that is not yet
    committed are deleted if they are older. PATH is a Delta table, or the warehouse of the Iceberg table --table.
    """
    count = open_table(path, table, catalog).expire(keep_s)
    if as_json:
        write_json({"deleted": count})
    else:
        write_line(f"{count} files were deleted")


def _described(noted: "Noted") -> dict[str, Any]:
    from tailrace.spark.position import to_json

    return {
        "version": noted.version,
        "time": datetime.fromtimestamp(noted.time_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "flow": noted.note.flow,
        "batch": noted.note.batch_id,
        "offsets": to_json(noted.note.offsets),
    }


def _shown(offsets: dict[str, dict[str, int]]) -> str:
    return ", ".join(f"{topic}-{index}: {end}" for topic, ends in offsets.items() for index, end in ends.items())
