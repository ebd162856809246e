"""`runnel produce`: lines from stdin or files become records of a topic."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runnel.cli.error import explain
from runnel.cli.line import STDIN_PATH, LineTooLong, read_lines
from runnel.cli.option import broker_options, read_pairs, run_with_cluster
from runnel.cli.progress import show_progress

if TYPE_CHECKING:
    from runnel.client.cluster import Cluster
    from runnel.client.writer import Delivery

_ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_DELIVERY_TIMEOUT_MS = 30_000  # a person waits for it, so less than a producer's two minutes


@dataclass(frozen=True, slots=True)
class _Job:
    topic: str
    paths: Sequence[Path]
    key_separator: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None
    compression: str
    acks: int


@click.command()
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--key-separator", metavar="TEXT", help="What stands between key and value; without it there are no keys."
)
@click.option("--header", "headers", multiple=True, callback=read_pairs, metavar="NAME=VALUE", help="For every record.")
@click.option("--partition", type=click.IntRange(min=0), help="Where all records go; otherwise the keys decide.")
@click.option("--compression", type=click.Choice(_COMPRESSIONS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(list(_ACKS)), default="all", show_default=True)
@broker_options
def produce(
    topic: str,
    files: tuple[Path, ...],
    key_separator: str | None,
    headers: Mapping[str, str],
    partition: int | None,
    compression: str,
    acks: str,
    bootstrap_server: str | None,
    command_config: Path | None,
) -> None:
    """Write each line of stdin or of FILES to TOPIC."""
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    job = _Job(
        topic,
        files or (STDIN_PATH,),
        None if key_separator is None else key_separator.encode(),
        tuple((name, value.encode()) for name, value in headers.items()),
        partition,
        compression,
        _ACKS[acks],
    )
    written = _Written()
    try:
        run_with_cluster(bootstrap_server, command_config, lambda cluster: _write(cluster, job, written))
    except KeyboardInterrupt:
        pass  # the usual end of typing; what was taken has been flushed
    except Exception as error:
        message = explain(error)
        if message is None or not written.record_count or isinstance(error, click.UsageError):
            raise
        raise click.ClickException(f"{message} ({written.record_count} records were written)") from error
    if sys.stderr.isatty():
        click.echo(f"{written.record_count} records written to {topic}", err=True)


class _Written:
    """What the broker has acknowledged."""

    def __init__(self) -> None:
        self.record_count = 0

    def add(self, delivery: "Delivery") -> None:
        if delivery.error is None:
            self.record_count += delivery.record_count


async def _write(cluster: "Cluster", job: _Job, written: _Written) -> None:
    from runnel.client.writer import Writer
    from runnel.records.compression import Compression

    writer = Writer(
        cluster,
        acks=job.acks,
        compression=Compression[job.compression.upper()],
        delivery_timeout_ms=_DELIVERY_TIMEOUT_MS,
        on_delivery=written.add,
    )
    line_number = 0
    async with writer, aclosing(read_lines(job.paths)) as chunks:
        is_typed = STDIN_PATH in job.paths and sys.stdin.isatty()
        with show_progress(job.topic, _total_bytes(job.paths), is_wanted=not is_typed) as tell:
            try:
                async for lines, size_bytes in chunks:
                    for line in lines:
                        line_number += 1
                        key, value = _split(line, job.key_separator, line_number)
                        await writer.send(job.topic, key, value, job.headers, partition=job.partition)
                    tell(size_bytes, len(lines))
            except LineTooLong as error:
                raise click.ClickException(f"{error}, after line {line_number}") from None
            finally:
                await writer.flush()


def _split(line: bytes, separator: bytes | None, line_number: int) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    if not found:
        raise click.ClickException(f"line {line_number} has no key separator {separator.decode()!r}")
    return key, value


def _total_bytes(paths: Sequence[Path]) -> int | None:
    """How much there is to read; None when nobody can know."""
    if STDIN_PATH in paths:
        return None
    return sum(path.stat().st_size for path in paths)
