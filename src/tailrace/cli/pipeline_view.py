"""The display of a running pipeline: a live table at a terminal, plain lines in a pipe."""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.cli.output import is_terminal

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from tailrace.spark.pipeline.tally import FlowTally

LINE_INTERVAL_S = 5.0
_COLUMNS_NARROW = 7  # the ones that fit into a terminal of 80 columns
_WIDTH_WIDE = 100
HEADINGS = ("flow", "state", "in/s", "out/s", "batch", "lag", "state rows", "rows in", "rows out", "rejected")


class Shown(Protocol):
    """A pipeline whose flows can be displayed."""

    def snapshot(self) -> "list[FlowTally]":
        """Return the current numbers of every flow."""
        ...


class View:
    """Prints the progress of flows."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._shown: Shown | None = None
        self._live: Any = None
        self._line_due_s = 0.0

    def say(self, text: str) -> None:
        """Print one line."""
        print(f"tailrace: {text}", flush=True)

    @contextmanager
    def live(self, shown: Shown) -> Iterator[None]:
        """Display the live table during the block."""
        self._shown = shown
        self._line_due_s = time.monotonic() + LINE_INTERVAL_S
        if not is_terminal():
            yield
            return
        from rich.live import Live

        with Live(self._render(), auto_refresh=False, transient=True) as self._live:
            yield
        self._live = None

    def refresh(self) -> None:
        """Display the newest numbers; call it often."""
        if self._shown is None:
            return
        if self._live is not None:
            self._live.update(self._render(), refresh=True)
        elif time.monotonic() >= self._line_due_s:
            self._line_due_s += LINE_INTERVAL_S
            for tally in self._shown.snapshot():
                print(flow_line(tally, time.monotonic()), flush=True)

    def summarise(self, tallies: "Sequence[FlowTally]") -> None:
        """Print the totals of all flows."""
        for tally in tallies:
            self.say(total_line(tally))

    def _render(self) -> "RenderableType":
        from rich.console import Group

        tallies = [] if self._shown is None else self._shown.snapshot()
        now_s = time.monotonic()
        return Group(
            flow_table(self._title, tallies, now_s), *restart_lines(tallies, now_s), "[dim]Ctrl-C stops it[/dim]"
        )


def flow_cells(tally: "FlowTally", now_s: float) -> tuple[str, ...]:
    """Return the numbers of a flow as text, in the order of `HEADINGS`."""
    rate_in, rate_out = tally.rates(now_s)
    batch = f"{tally.batch_ms:,} ms" if tally.batch_count else "-"
    counts = (tally.lag, tally.state_rows, tally.rows_in, tally.rows_out, sum(tally.rejected.values()))
    return (tally.name, tally.state, f"{rate_in:,.0f}", f"{rate_out:,.0f}", batch, *(f"{count:,}" for count in counts))


def flow_table(title: str, tallies: "Sequence[FlowTally]", now_s: float, width: int | None = None) -> "Table":
    """Return a table with a row for each flow, without totals if the terminal is too narrow."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    width = shutil.get_terminal_size().columns if width is None else width
    shown = HEADINGS if width >= _WIDTH_WIDE else HEADINGS[:_COLUMNS_NARROW]
    table = Table(title=title, title_justify="left", header_style="bold cyan", box=SIMPLE_HEAD, pad_edge=False)
    for heading in shown:
        table.add_column(heading, justify="left" if heading in ("flow", "state") else "right", no_wrap=True)
    for tally in tallies:
        table.add_row(*(Text(cell) for cell in flow_cells(tally, now_s)[: len(shown)]))
    return table


def restart_lines(tallies: "Sequence[FlowTally]", now_s: float) -> "list[Text]":
    """Return a line for each flow that waits for its restart, with the cause; the table has no room for it."""
    from rich.text import Text

    waiting = [tally for tally in tallies if tally.state == "restarting"]
    return [Text(f"{tally.name}: {tally.shown_state(now_s)}", style="yellow") for tally in waiting]


def flow_line(tally: "FlowTally", now_s: float) -> str:
    """Return a line with the numbers of a flow, or with its state if it is starting or waits for its restart."""
    if tally.state == "restarting" or (tally.state == "starting" and not tally.batch_count):
        return f"{tally.name}: {tally.shown_state(now_s)}"
    name, state, rate_in, rate_out, batch, lag, state_rows, rows_in, rows_out, _ = flow_cells(tally, now_s)
    count = sum(tally.rejected.values())
    rejected = f", {count:,} rejected" if count else ""
    return (
        f"{name}: {state}, {rate_in} rows/s in, {rate_out} rows/s out, batch {batch}, lag {lag}, "
        f"{state_rows} state rows; {rows_in} in, {rows_out} out{rejected}"
    )


def total_line(tally: "FlowTally") -> str:
    """Return a line with the totals of a flow."""
    late = f", {tally.rows_late:,} late" if tally.rows_late else ""
    twice = f", {tally.rows_duplicate:,} duplicate" if tally.rows_duplicate else ""
    broken = "".join(f", {count:,} broke {name}" for name, count in tally.broken.items() if count)
    rejected = "".join(f", {count:,} rejected ({reason})" for reason, count in tally.rejected.items())
    batches = f"{tally.batch_count:,} batch{'' if tally.batch_count == 1 else 'es'}"
    rows = f"{tally.rows_in:,} rows in, {tally.rows_out:,} rows out"
    waited = " while it waited for its restart" if tally.state == "stopped" and tally.cause else ""
    return f"flow {tally.name} {tally.state}{waited}: {rows}, {batches}{late}{twice}{broken}{rejected}"
