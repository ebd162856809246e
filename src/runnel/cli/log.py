"""`runnel log`: look into the files of a log, and find out whether they are right."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import click

from runnel.cli.option import json_option
from runnel.cli.output import has_colour, write_json, write_line
from runnel.cli.progress import show_progress
from runnel.cli.record_format import visible

_SETTLE_S = 0.1


@click.group()
def log() -> None:
    """Look into the files of a log, and check them.

    Nothing is changed, and a broker may be running.
    """


@log.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE…")
@click.option("--records", "with_records", is_flag=True, help="Print every record of the batches, too.")
@json_option
def dump(files: tuple[Path, ...], with_records: bool, as_json: bool) -> None:
    """Print what stands in each FILE: a segment, an index, a snapshot of producers, a checkpoint.

    A file is told by its name: .log, .index, .timeindex, .txnindex, .snapshot, leader-epoch-checkpoint,
    recovery-point-offset-checkpoint and the other checkpoints, partition.metadata, meta.properties. Offsets
    of a segment and its indexes come from the name, too.

    One line is printed for each batch or entry, with --records one more for each record, with --json an
    object a line. What is broken is printed where it stands, reading goes on behind it, and the exit
    status is 1.
    """
    from runnel.cli.log_entry import find_reader, read_entries
    from runnel.cli.log_format import json_format, text_format
    from runnel.storage.fs import ReadOnlyFileSystem

    readers = [find_reader(str(file)) for file in files]
    for file, found in zip(files, readers, strict=True):
        if found is None:
            raise click.UsageError(f"{file}: this name is none of a file in a log folder (see --help)")
        if not file.exists():
            raise click.ClickException(f"{file}: there is no such file")
    render = json_format if as_json else text_format(has_colour=has_colour())
    problem_count = 0
    for file, found in zip(files, readers, strict=True):
        if found is None:
            continue
        if len(files) > 1 and not as_json:
            write_line(f"{file}:")
        reader, offset = found
        for entry in read_entries(ReadOnlyFileSystem(), str(file), reader, offset, with_records):
            write_line(render(str(file), entry))
            problem_count += bool(entry.problem)
    if problem_count:
        sys.stdout.flush()
        raise click.ClickException(f"{problem_count} broken {'place' if problem_count == 1 else 'places'}")


@log.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@json_option
def verify(directory: Path, as_json: bool) -> None:
    """Check every file in DIR, a log folder or the folder of one partition.

    Looks at the checksum and the records of every batch, the order of offsets and leader epochs, every entry
    of the indexes, the snapshots of producers and the checkpoints. Each finding is a line with its file,
    position and offset; with --json all of them are one document. The exit status is 1 if there are any.

    A broker may be running: files that vanish and a batch that is being written are no findings, and the
    indexes of a segment in use are not looked at.
    """
    from runnel.storage.folder_check import check_folder_files, check_partition, find_partitions, total_bytes
    from runnel.storage.fs import ReadOnlyFileSystem

    if not directory.exists():
        raise click.ClickException(f"{directory}: there is no such folder")
    fs, path = ReadOnlyFileSystem(), str(directory)
    partitions = find_partitions(fs, path)
    if not partitions:
        raise click.ClickException(f"{directory}: neither a log folder nor the folder of a partition")
    summary = _Summary(as_json)
    for finding in () if partitions == [path] else check_folder_files(fs, path):
        summary.note(finding)
    expected_bytes = sum(total_bytes(fs, partition) for partition in partitions)
    with show_progress("verifying", expected_bytes) as tell:

        def count(size_bytes: int, record_count: int) -> None:
            summary.count(size_bytes, record_count)
            tell(size_bytes, record_count)

        for partition in partitions:
            for finding in check_partition(fs, partition, lambda: time.sleep(_SETTLE_S), count):
                summary.note(finding)
    summary.end(len(partitions))


class _Summary:
    """What was looked at and what was found."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        # A progress bar takes over the terminal while it is shown.
        self._is_patient = sys.stderr.isatty()
        self._lines: list[str] = []
        self._findings: list[dict[str, Any]] = []
        self._size_bytes = 0
        self._record_count = 0

    def count(self, size_bytes: int, record_count: int) -> None:
        self._size_bytes += size_bytes
        self._record_count += record_count

    def note(self, finding: Any) -> None:
        self._findings.append(
            {"file": finding.path, "position": finding.position, "offset": finding.offset, "problem": finding.text}
        )
        line = visible(os.fsencode(str(finding)))
        if self._is_patient:
            self._lines.append(line)
        elif not self._as_json:
            write_line(line)
            sys.stdout.flush()

    def end(self, partition_count: int) -> None:
        count = len(self._findings)
        if self._as_json:
            write_json(
                {
                    "partitions": partition_count,
                    "size_bytes": self._size_bytes,
                    "records": self._record_count,
                    "findings": self._findings,
                }
            )
        else:
            for line in self._lines:
                write_line(line)
            looked = f"{partition_count:,} partition{'' if partition_count == 1 else 's'}, "
            looked += f"{self._record_count:,} records, {self._size_bytes:,} bytes"
            write_line(f"{looked}: {f'{count:,} found to be wrong' if count else 'nothing is wrong'}")
        if count:
            sys.stdout.flush()
            raise click.ClickException(f"{count:,} found to be wrong")
