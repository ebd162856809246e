"""Faults on demand: what shall go wrong with the next requests of an API.

They are set from the thread of the test and met in the thread of the broker, hence the lock.
"""

import asyncio
import threading
from dataclasses import dataclass

from runnel.protocol.api_key import ApiKey
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.message import Message
from runnel.server import handlers  # noqa: F401 - fills the registry of APIs
from runnel.server.api import APIS
from runnel.server.connection import ConnectionClosed
from runnel.server.context import RequestContext


@dataclass(slots=True, eq=False)
class Fault:
    """What happens to the requests of one API: a wait, then perhaps an error or a dropped connection."""

    api: ApiKey
    error: ErrorCode | None
    delay_s: float
    drop: bool
    left: int | None
    """How many more requests it is for; None for every one until the faults are cleared."""
    hits: int = 0
    """How many requests have met it."""


class Faults:
    """The faults of one broker, met in the order in which they were set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Have the next requests of the fault's API meet it."""
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Have everything go right again, except for requests that wait already."""
        with self._lock:
            self._faults.clear()

    async def intercept(self, context: RequestContext, request: Message) -> None:  # noqa: ARG002 - the server's signature
        """Do to a request what was asked for; the server calls it before each handler."""
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
    """A fault from what a test says; raises ValueError where that makes no sense."""
    if error is None and not drop and delay_s == 0:
        raise ValueError("a fault is an error, a delay or a drop: name at least one")
    if error is not None and drop:
        raise ValueError("a dropped connection carries no error")
    if delay_s < 0:
        raise ValueError(f"a delay of {delay_s} s")
    if count is not None and count < 1:
        raise ValueError(f"a fault for {count} requests; None stands for all of them")
    return Fault(_read_api(api), None if error is None else _read_error(error), delay_s, drop, count)


def _read_api(api: str | int) -> ApiKey:
    """An API by key or name, in the spelling of Kafka's code (LIST_OFFSETS) or of its protocol (ListOffsets)."""
    if isinstance(api, str):
        names = {_letters(key.name): key for key in ApiKey}
        key = names.get(_letters(api))
    else:
        key = next((known for known in ApiKey if known == api), None)
    if key is None:
        raise ValueError(f"no API is called {api!r}")
    if key not in APIS:
        raise ValueError(f"the broker does not serve {key.name} yet, so no request would meet the fault")
    return key


def _read_error(error: str | int) -> ErrorCode:
    name = error.upper() if isinstance(error, str) else ErrorCode(error).name
    code = ErrorCode.__members__.get(name)
    if code is None or (isinstance(error, int) and code != error):
        raise ValueError(f"Kafka has no error {error!r}")
    if code is ErrorCode.NONE:
        raise ValueError("NONE is no error")
    return code


def _letters(name: str) -> str:
    return name.replace("_", "").casefold()
