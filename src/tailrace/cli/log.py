"""`tailrace log`: print and verify the files of a log."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import click

from tailrace.cli.option import json_option
from tailrace.cli.output import has_colour, write_json, write_line
from tailrace.cli.progress import show_progress
from tailrace.cli.record_format import visible

_SETTLE_S = 0.1


@click.group()
def log() -> None:
    """Print and verify the files of a log.

    The files are only read, also while a broker uses them.
    """


@log.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE…")
@click.option("--records", "with_records", is_flag=True, help="Also print the records of each batch.")
@json_option
def dump(files: tuple[Path, ...], with_records: bool, as_json: bool) -> None:
    """Print the contents of each FILE: a segment, an index, a producer snapshot or a checkpoint.

    The name determines the kind of file: .log, .index, .timeindex, .txnindex, .snapshot, leader-epoch-checkpoint,
    recovery-point-offset-checkpoint and the other checkpoints, partition.metadata, meta.properties. The base offset
    of a segment and its indexes also comes from the name.

    Each batch or entry is one line; --records adds a line for each record, and --json prints one object on each
    line. Damage is printed at its position, reading continues after it, and the exit status is 1.
    """
    from tailrace.cli.log_entry import find_reader, read_entries
    from tailrace.cli.log_format import json_format, text_format
    from tailrace.storage.fs import ReadOnlyFileSystem

    readers = [find_reader(str(file)) for file in files]
    for file, found in zip(files, readers, strict=True):
        if found is None:
            raise click.UsageError(f"{file}: not the name of a file in a log folder (see --help)")
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
        raise click.ClickException(f"found {_problems(problem_count)}")


@log.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@json_option
def verify(directory: Path, as_json: bool) -> None:
    """Verify every file in DIR, which is a log folder or the folder of one partition.

    Checks the checksum and the records of every batch, the order of offsets and leader epochs, every index entry,
    producer snapshots and checkpoints. Each problem is one line with its file, position and offset; --json prints
    all of them as one document. The exit status is 1 if there are any.

    A broker may use the folder: deleted files and a batch that is being written are not reported, and the indexes
    of the active segment are not checked.
    """
    from tailrace.storage.folder_check import check_folder_files, check_partition, find_partitions, total_bytes
    from tailrace.storage.fs import ReadOnlyFileSystem

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
    """What was checked, and the problems that were found."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        # A progress bar owns the terminal while it is shown.
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
            write_line(f"{looked}: {_problems(count) if count else 'nothing is wrong'}")
        if count:
            sys.stdout.flush()
            raise click.ClickException(f"found {_problems(count)}")


def _problems(count: int) -> str:
    return f"{count:,} problem{'' if count == 1 else 's'}"
