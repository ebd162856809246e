"""The leader's decisions, which are written in groups.

Requests that arrive while a group is being written are decided together and written in one transaction, so that many
clients do not wait for a transaction each. Decisions are made on a draft of the state that is ahead of the one that is
served: nothing is shown or answered before it is in the topic. If a write fails the draft is thrown away.

Decisions are made in a thread, one after the other, because a large schema takes seconds to parse and to compare, and
the event loop sends the heartbeats meanwhile. Only that thread reads and changes the draft.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from tailrace.base.schema_limits import REGISTRY_DECIDING_S_MAX, REGISTRY_GROUP_COUNT_MAX
from tailrace.client.error import ClientError
from tailrace.protocol.errors import ApiError, RemoteProtocolError
from tailrace.registry.core.error import Code, RegistryError
from tailrace.registry.core.parser import SchemaCache, SchemaParser
from tailrace.registry.core.record import Change
from tailrace.registry.core.state import State
from tailrace.registry.store import Row, SchemaStore, StoreError, encode_rows

_log = logging.getLogger(__name__)

R = TypeVar("R")

Decide = Callable[[State, SchemaParser], tuple[Sequence[Change], R]]
"""A decision: returns the records to write, and the result once they are written."""

_Waiting = tuple[Decide[Any], "asyncio.Future[Any]"]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What was decided about one request: records and a result, or an error."""

    rows: Sequence[Row] = ()
    result: Any = None
    error: Exception | None = None


class Writer:
    """Decides and writes, group after group, while its registry leads."""

    def __init__(self, store: SchemaStore, cache: SchemaCache, is_leader: Callable[[], bool]) -> None:
        self._store = store
        self._cache = cache
        self._is_leader = is_leader
        self._waiting: list[_Waiting] = []
        self._arrived = asyncio.Event()
        self._draft: State | None = None
        self._draft_term = 0
        self._parser = SchemaParser(State(), cache)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="registry-writer")

    async def change(self, decide: Decide[R]) -> R:
        """Decide one request after those before it, and return its result when it is written."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((decide, future))
        self._arrived.set()
        return await future

    async def run(self) -> None:
        """Write groups until cancelled."""
        try:
            while True:
                await self._arrived.wait()
                group = self._waiting[:REGISTRY_GROUP_COUNT_MAX]
                del self._waiting[:REGISTRY_GROUP_COUNT_MAX]
                if not self._waiting:
                    self._arrived.clear()
                await self._try_to_write(group)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _try_to_write(self, group: list[_Waiting]) -> None:
        """Decide and write the first requests of a group, or fail them."""
        try:
            await self._write(group)
        except RegistryError as error:
            self._draft = None
            _fail(group, error)
        except Exception as error:
            self._draft = None
            _log.exception("a group of %d changes failed", len(group))
            _fail(group, RegistryError(Code.STORE_FAILED, f"The change failed: {error}"))
        except asyncio.CancelledError as error:
            if not _is_cancelled():
                # A producer that is closed cancels what waits for its connections, and this task must go on.
                self._draft = None
                _fail(group, RegistryError(Code.STORE_FAILED, f"The change was given up: {error!r}"))
                return
            _fail([*group, *self._waiting], RegistryError(Code.UNKNOWN_LEADER, "This registry is stopping"))
            raise

    async def _write(self, group: list[_Waiting]) -> None:
        self._require_leader()
        draft = await self._current_draft()
        self._require_leader()
        decides = [decide for decide, _ in group]
        outcomes = await asyncio.get_running_loop().run_in_executor(
            self._thread, _decide_some, draft, self._parser, decides
        )
        self._put_back(group, len(outcomes))
        self._require_leader()
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if outcome.error is not None:
                _settle(future, error=outcome.error)
        await self._store.append([row for outcome in outcomes for row in outcome.rows])
        for (_, future), outcome in zip(group, outcomes, strict=True):
            _settle(future, outcome.result)

    def _require_leader(self) -> None:
        if not self._is_leader():
            raise RegistryError(Code.UNKNOWN_LEADER, "This registry is not the leader any more")

    def _put_back(self, group: list[_Waiting], decided_count: int) -> None:
        """Let the requests that there was no time for be the first of the next group."""
        undecided = group[decided_count:]
        if undecided:
            del group[decided_count:]
            self._waiting[:0] = undecided
            self._arrived.set()

    async def _current_draft(self) -> State:
        """Return the draft that holds all that was written, a new one after another process may have written."""
        if not self._store.is_writer:
            await self._take_over()
        if self._draft is None or self._draft_term != self._store.term:
            self._draft, self._draft_term = self._store.state.copy(), self._store.term
            self._parser = SchemaParser(self._draft, self._cache)
        return self._draft

    async def _take_over(self) -> None:
        """Take the topic over again after a write that failed."""
        try:
            await self._store.take_over()
        except TimeoutError as error:
            raise RegistryError(Code.TIMED_OUT, f"Topic {self._store.topic} could not be read to its end") from error
        except (ClientError, ApiError, RemoteProtocolError, OSError, StoreError) as error:
            raise RegistryError(Code.STORE_FAILED, f"Topic {self._store.topic} cannot be written: {error}") from error


def _decide_some(draft: State, parser: SchemaParser, decides: Sequence[Decide[Any]]) -> list[_Outcome]:
    """Decide requests one after the other, at least one, until they have taken too long; each sees those before it."""
    deadline_s = time.monotonic() + REGISTRY_DECIDING_S_MAX
    outcomes: list[_Outcome] = []
    for decide in decides:
        outcomes.append(_decide_one(draft, parser, decide))
        if time.monotonic() > deadline_s:
            break
    return outcomes


def _decide_one(draft: State, parser: SchemaParser, decide: Decide[Any]) -> _Outcome:
    try:
        changes, result = decide(draft, parser)
        rows = encode_rows(changes)
    except RegistryError as error:
        return _Outcome(error=error)
    except Exception as error:  # a decision is pure, so the others do not suffer
        _log.exception("a change could not be decided")
        return _Outcome(error=error)
    for change in changes:
        draft.replay(change)
    return _Outcome(rows, result)


def _is_cancelled() -> bool:
    """Return whether the current task has been told to stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _settle(future: "asyncio.Future[Any]", result: Any = None, error: Exception | None = None) -> None:
    if future.done():
        return  # its client has gone
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _fail(group: Sequence[_Waiting], error: RegistryError) -> None:
    for _, future in group:
        _settle(future, error=error)
