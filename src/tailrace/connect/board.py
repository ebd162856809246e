"""The statuses of connectors and tasks, as this service knows them, and their way into the topic.

The service itself knows what its connectors do. The topic tells others, and the next service; when brokers are away it
is told later, and requests are answered all the same.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from tailrace.connect.core.record import Phase, Row, Status, status_row, task_status_row
from tailrace.connect.store import ConnectStore, StoreError

_log = logging.getLogger(__name__)

_RETRY_S = 1.0


class StatusBoard:
    """Statuses by connector and by task. `run` writes what is new to the topic."""

    def __init__(self, store: ConnectStore, worker_id: str) -> None:
        self._store = store
        self._worker_id = worker_id
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._new: dict[tuple[str, str], Row] = {}
        self._is_new = asyncio.Event()

    def connector(self, name: str) -> Status | None:
        """Return the status of a connector; None if it has none."""
        return self._connectors.get(name)

    def tasks(self, name: str) -> dict[int, Status]:
        """Return the statuses of a connector's tasks."""
        return self._tasks.get(name, {})

    def set(self, name: str, phase: Phase, trace: str | None = None) -> None:
        """Set the status of a connector."""
        status = self._connectors[name] = Status(phase, self._worker_id, self._store.generation, trace)
        self.write([status_row(name, status)])

    def set_tasks(self, name: str, phases: dict[int, tuple[Phase, str | None]]) -> None:
        """Set the statuses of all tasks of a connector; others are gone."""
        before = self._tasks.get(name, {})
        found = self._tasks[name] = {
            task: Status(phase, self._worker_id, self._store.generation, trace)
            for task, (phase, trace) in phases.items()
        }
        known = {**dict.fromkeys(before), **dict.fromkeys(self._store.state.task_statuses_of(name))}
        self.write([task_status_row(name, task, None) for task in known if task not in found])
        self.write(
            [task_status_row(name, task, status) for task, status in found.items() if before.get(task) != status]
        )

    def forget(self, name: str) -> None:
        """Forget a connector that was deleted."""
        self.set_tasks(name, {})
        self._tasks.pop(name, None)
        self._connectors.pop(name, None)
        self.write([status_row(name, None)])

    def write(self, rows: Iterable[Row]) -> None:
        """Write records soon; a newer one of the same key takes the place of one that waits."""
        for row in rows:
            key = (row.store, row.key)
            self._new.pop(key, None)
            self._new[key] = row
        if self._new:
            self._is_new.set()

    async def run(self) -> None:
        """Write what is new, for ever; raises `Replaced`."""
        while True:
            await self._is_new.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write what is new now, and try again later if brokers are away."""
        self._is_new.clear()
        new, self._new = self._new, {}
        try:
            await self._store.append(list(new.values()))
        except asyncio.CancelledError:
            self._new = {**new, **self._new}
            raise
        except StoreError as error:
            _log.warning("statuses will be written later: %s", error)
            self._new = {**new, **self._new}
            self._is_new.set()
            await asyncio.sleep(_RETRY_S)

    async def close(self) -> None:
        """Write what is left, if brokers are there."""
        with contextlib.suppress(Exception):
            await self.flush()
