"""The output of commands: tables at a terminal, plain lines in a pipe, and JSON."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return sys.stdout.isatty()


def has_colour() -> bool:
    """Return whether to print colours: at a terminal, unless NO_COLOR is set (see no-color.org)."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def write_line(text: str) -> None:
    """Print a line."""
    sys.stdout.write(text + "\n")


def write_json(value: Any) -> None:
    """Print one JSON document."""
    write_line(json.dumps(value, ensure_ascii=False, indent=2 if is_terminal() else None))


def write_table(headings: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print rows as a table with headings at a terminal, or separated by tabs in a pipe."""
    if not is_terminal():
        for row in rows:
            write_line("\t".join(map(str, row)))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", header_style="bold cyan")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console().print(table)
