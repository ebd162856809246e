"""Faults on demand: errors, delays and dropped connections for the next requests of an API.

The test's thread sets them and the broker's thread applies them, under a lock.
"""

import asyncio
import threading
from dataclasses import dataclass

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.message import Message
from tailrace.server.connection import ConnectionClosed
from tailrace.server.context import RequestContext
from tailrace.server.handlers import APIS


@dataclass(slots=True, eq=False)
class Fault:
    """A fault of one API: a delay, and then an error or a dropped connection, if set."""

    api: ApiKey
    error: ErrorCode | None
    delay_s: float
    drop: bool
    left: int | None
    """Number of remaining requests; None for all until the faults are cleared."""
    hits: int = 0
    """Number of affected requests."""


class Faults:
    """The faults of one broker, applied in the order in which they were set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Apply a fault to the next requests of its API."""
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Remove all faults; requests that are already delayed keep theirs."""
        with self._lock:
            self._faults.clear()

    async def intercept(self, context: RequestContext, request: Message) -> None:
        """Apply the first matching fault to a request; the server calls this before each handler."""
        fault = self._take(context.header.api_key)
        if fault is None:
            return
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.drop:
            raise ConnectionClosed(f"a fault for {fault.api.name} drops it")
        if fault.error is not None:
            raise ApiError(fault.error, "an injected fault")

    def _take(self, api_key: int) -> Fault | None:
        with self._lock:
            fault = next((fault for fault in self._faults if fault.api == api_key), None)
            if fault is None:
                return None
            fault.hits += 1
            if fault.left is not None:
                fault.left -= 1
                if fault.left == 0:
                    self._faults.remove(fault)
            return fault


def read_fault(api: str | int, error: str | int | None, delay_s: float, drop: bool, count: int | None) -> Fault:
    """Return a fault; raises ValueError for invalid arguments."""
    if error is None and not drop and delay_s == 0:
        raise ValueError("a fault needs an error, a delay or a drop")
    if error is not None and drop:
        raise ValueError("a dropped connection cannot carry an error: set error or drop")
    if delay_s < 0:
        raise ValueError(f"a delay cannot be {delay_s} s")
    if count is not None and count < 1:
        raise ValueError(f"a fault cannot apply to {count} requests; use None for all requests")
    return Fault(_read_api(api), None if error is None else _read_error(error), delay_s, drop, count)


def _read_api(api: str | int) -> ApiKey:
    """Return an API by key or name, in the spelling of Kafka's code (LIST_OFFSETS) or of its protocol (ListOffsets)."""
    if isinstance(api, str):
        names = {_letters(key.name): key for key in ApiKey}
        key = names.get(_letters(api))
    else:
        key = next((known for known in ApiKey if known == api), None)
    if key is None:
        raise ValueError(f"there is no API {api!r}")
    if key not in APIS:
        raise ValueError(f"the broker does not serve {key.name}, so the fault would affect no request")
    return key


def _read_error(error: str | int) -> ErrorCode:
    name = error.upper() if isinstance(error, str) else ErrorCode(error).name
    code = ErrorCode.__members__.get(name)
    if code is None or (isinstance(error, int) and code != error):
        raise ValueError(f"Kafka has no error {error!r}")
    if code is ErrorCode.NONE:
        raise ValueError("NONE is not an error")
    return code


def _letters(name: str) -> str:
    return name.replace("_", "").casefold()
