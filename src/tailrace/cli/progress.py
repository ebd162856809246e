"""The progress bar of a long command, on stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[int, int], None]
"""Receives the number of bytes and records processed since the last call."""


@contextmanager
def show_progress(title: str, total_bytes: int | None, *, is_wanted: bool = True) -> Iterator[Tell]:
    """Display a bar during the block, unless it is not wanted or stderr is not a terminal."""
    if not is_wanted or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("{task.fields[records]:,} records"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total_bytes, records=0)
        written = 0

        def tell(size_bytes: int, record_count: int) -> None:
            nonlocal written
            written += record_count
            bar.update(task, advance=size_bytes, records=written)

        yield tell
