"""The live display of the demo: published events, the progress of the flows, and their results."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tailrace.cli.demo.publisher import Publisher
from tailrace.cli.demo.result import Results
from tailrace.cli.output import is_terminal
from tailrace.cli.pipeline_view import LINE_INTERVAL_S, Shown, flow_line, flow_table, restart_lines

if TYPE_CHECKING:
    from rich.console import RenderableType


class DemoBoard:
    """Displays a live table at a terminal, and lines in a pipe."""

    def __init__(self, address: str, publisher: Publisher, running: Shown, results: Results) -> None:
        self._address = address
        self._publisher = publisher
        self._running = running
        self._results = results
        self._live: Any = None
        self._line_due_s = time.monotonic() + LINE_INTERVAL_S
        self._has_result = False

    @contextmanager
    def live(self) -> Iterator[None]:
        """Display the live table during the block; `refresh` updates it."""
        if not is_terminal():
            yield
            return
        from rich.live import Live

        with Live(self._render(), auto_refresh=False, transient=True) as self._live:
            yield
        self._live = None

    def refresh(self) -> None:
        """Display the newest numbers; call it often."""
        if self._live is not None:
            self._live.update(self._render(), refresh=True)
        elif self._is_first_result() or time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + LINE_INTERVAL_S
            for line in self.lines():
                print(line, flush=True)

    def _is_first_result(self) -> bool:
        """Return whether the first result has just arrived; it is printed at once."""
        if self._has_result or not self._results.pages:
            return False
        self._has_result = True
        return True

    def lines(self) -> list[str]:
        """Return the numbers as lines."""
        now_s = time.monotonic()
        flows = [flow_line(tally, now_s) for tally in self._running.snapshot()]
        return [self._published(), *flows, self._results.line()]

    def _published(self) -> str:
        publisher = self._publisher
        return (
            f"published {publisher.total:,} events, {publisher.rate.per_second():,.0f}/s, "
            f"{publisher.late_count:,} late, {publisher.duplicate_count:,} duplicates"
        )

    def _render(self) -> "RenderableType":
        from rich.columns import Columns
        from rich.console import Group

        title = f"Website activity through a Tailrace broker on {self._address} and Spark"
        now_s, tallies = time.monotonic(), self._running.snapshot()
        return Group(
            flow_table(title, tallies, now_s),
            *restart_lines(tallies, now_s),
            self._published(),
            Columns(self._results.tables()),
            "[dim]Ctrl-C ends it[/dim]",
        )
