"""What commands print: tables for a person at a terminal, plain lines for a pipe, JSON for a program."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def is_terminal() -> bool:
    """Whether a person reads what is printed."""
    return sys.stdout.isatty()


def has_colour() -> bool:
    """Whether colours are wanted: at a terminal, unless NO_COLOR is set (see no-color.org)."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def write_line(text: str) -> None:
    """Print a line."""
    sys.stdout.write(text + "\n")


def write_json(value: Any) -> None:
    """Print one JSON document."""
    write_line(json.dumps(value, ensure_ascii=False, indent=2 if is_terminal() else None))


def write_table(headings: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print rows, with headings at a terminal, and with a tab between cells in a pipe."""
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
