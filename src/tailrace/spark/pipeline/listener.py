"""The listener of Spark's reports on streaming queries."""

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)


class ProgressListener(StreamingQueryListener):
    """Calls a function for each kind of report.

    `on_progress` gets the name of a query and its progress, `on_idle` the id of a run that found nothing to do, and
    `on_end` the id of a run that ended. A query that is started again keeps its own id, and has a new run.
    """

    def __init__(
        self,
        on_progress: Callable[[str, dict[str, Any]], None],
        on_idle: Callable[[str], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._on_progress = on_progress
        self._on_idle = on_idle
        self._on_end = on_end

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Ignore the start of a query."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Report a finished batch."""
        progress = json.loads(event.progress.json)
        self._on_progress(str(progress.get("name")), progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Report an idle query."""
        self._on_idle(str(event.runId))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Report the end of a query."""
        self._on_end(str(event.runId))
