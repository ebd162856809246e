"""The live picture of the demo: what is published, what the flows do, and what they have found out."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from runnel.cli.demo_publisher import Publisher
from runnel.cli.demo_result import Results
from runnel.cli.output import is_terminal
from runnel.cli.pipeline_view import LINE_INTERVAL_S, Shown, flow_line, flow_table, restart_lines

if TYPE_CHECKING:
    from rich.console import RenderableType


class DemoBoard:
    """A live table at a terminal, lines in a pipe."""

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
        """Keep the picture up to date while the block runs; `refresh` draws it."""
        if not is_terminal():
            yield
            return
        from rich.live import Live

        with Live(self._render(), auto_refresh=False, transient=True) as self._live:
            yield
        self._live = None

    def refresh(self) -> None:
        """Show the newest numbers; call it often."""
        if self._live is not None:
            self._live.update(self._render(), refresh=True)
        elif self._is_first_result() or time.monotonic() >= self._line_due_s:
            self._line_due_s = time.monotonic() + LINE_INTERVAL_S
            for line in self.lines():
                print(line, flush=True)

    def _is_first_result(self) -> bool:
        """Whether there is a result for the first time, for which people in front of a pipe have been waiting."""
        if self._has_result or not self._results.pages:
            return False
        self._has_result = True
        return True

    def lines(self) -> list[str]:
        """Everything as lines."""
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

        title = f"Website activity through a Runnel broker on {self._address} and Spark"
        now_s, tallies = time.monotonic(), self._running.snapshot()
        return Group(
            flow_table(title, tallies, now_s),
            *restart_lines(tallies, now_s),
            self._published(),
            Columns(self._results.tables()),
            "[dim]Ctrl-C ends it[/dim]",
        )
