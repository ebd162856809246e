"""How far a long command has come, on stderr, for a person at a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[int, int], None]
"""Told how many bytes and records have been done since it was last told."""


@contextmanager
def show_progress(title: str, total_bytes: int | None, *, is_wanted: bool = True) -> Iterator[Tell]:
    """A bar while the block runs; nothing at all where it is not wanted or stderr is no terminal."""
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
