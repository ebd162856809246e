"""`tailrace produce`: write lines from stdin or files to a topic."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.codec_option import Codecs, codec_options, open_codecs
from tailrace.cli.error import explain
from tailrace.cli.line import STDIN_PATH, LineTooLong, read_lines
from tailrace.cli.option import broker_options, read_pairs, run_with_cluster
from tailrace.cli.progress import show_progress

if TYPE_CHECKING:
    from tailrace.client.cluster import Cluster
    from tailrace.client.produce.writer import Delivery

_ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}
_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_DELIVERY_TIMEOUT_MS = 30_000  # shorter than a producer's two minutes, because a person is waiting


@dataclass(frozen=True, slots=True)
class _Job:
    topic: str
    paths: Sequence[Path]
    key_separator: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None
    compression: str
    acks: int
    codecs: Codecs


@click.command()
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--key-separator", metavar="TEXT", help="Separator between key and value; without it, records have no key."
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    callback=read_pairs,
    metavar="NAME=VALUE",
    help="Header of every record; can be repeated.",
)
@click.option("--partition", type=click.IntRange(min=0), help="Partition of all records.  [default: chosen by key]")
@click.option("--compression", type=click.Choice(_COMPRESSIONS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(list(_ACKS)), default="all", show_default=True)
@codec_options
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
    **codec_settings: Any,
) -> None:
    """Write each line of stdin or of FILES to TOPIC.

    With --value or --key, lines are JSON, which is encoded with --schema, --schema-id or the topic's latest schema.
    """
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    if key_separator is None and codec_settings["key_language"] is not None:
        raise click.UsageError("--key needs --key-separator, which divides a line into key and value")
    with open_codecs(topic, codec_settings, is_writer=True) as codecs:
        job = _Job(
            topic,
            files or (STDIN_PATH,),
            None if key_separator is None else key_separator.encode(),
            tuple((name, value.encode()) for name, value in headers.items()),
            partition,
            compression,
            _ACKS[acks],
            codecs,
        )
        _run(job, bootstrap_server, command_config)


def _run(job: _Job, bootstrap_server: str | None, command_config: Path | None) -> None:
    written = _Written()
    try:
        run_with_cluster(bootstrap_server, command_config, lambda cluster: _write(cluster, job, written))
    except KeyboardInterrupt:
        pass  # the usual way to stop typing; all lines so far are flushed
    except Exception as error:
        message = explain(error)
        if message is None or not written.record_count or isinstance(error, click.UsageError):
            raise
        raise click.ClickException(f"{message} ({written.record_count} records were written)") from error
    count, verb = written.record_count, "written" if job.acks else "sent without acknowledgement"
    click.echo(f"{count} {'record' if count == 1 else 'records'} {verb} to {job.topic}", err=True)


class _Written:
    """The count of acknowledged records."""

    def __init__(self) -> None:
        self.record_count = 0

    def add(self, delivery: "Delivery") -> None:
        if delivery.error is None:
            self.record_count += delivery.record_count


async def _write(cluster: "Cluster", job: _Job, written: _Written) -> None:
    from tailrace.client.produce.writer import Writer
    from tailrace.records.compression import Compression

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
                        key, value = _encode(job.codecs, *_split(line, job.key_separator, line_number), line_number)
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


def _encode(codecs: Codecs, key: bytes | None, value: bytes, line_number: int) -> tuple[bytes | None, bytes | None]:
    place = f"line {line_number}"
    encoded_key = key if codecs.key is None or key is None else codecs.key.encode(key, place)
    return encoded_key, value if codecs.value is None else codecs.value.encode(value, place)


def _total_bytes(paths: Sequence[Path]) -> int | None:
    """Return the size of all files; None if it is unknown."""
    if STDIN_PATH in paths:
        return None
    return sum(path.stat().st_size for path in paths)
