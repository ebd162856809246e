"""A broker in a thread of the test process with listeners of every security protocol."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tailrace.base.event_loop import new_event_loop
from tailrace.config.broker import BrokerConfig
from tailrace.machines.controller.record import ConfigKind
from tailrace.protocol.message import Message
from tailrace.security.scram.credential import format_credential, make_credential
from tailrace.security.scram.mechanism import SCRAM_MECHANISMS
from tailrace.server.context import RequestContext
from tailrace.server.server import Server, start_server

T = TypeVar("T")

TIMEOUT_S = 60.0
"""How long a test waits for what should come at once."""


class LogLines(logging.Handler):
    """The lines that the broker logs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []
        self._more = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._more:
            self.lines.append(self.format(record))
            self._more.notify_all()

    def wait_for(self, *parts: str, since: int = 0) -> str:
        """Return the first line with all these parts, once there is one."""

        def find() -> str | None:
            return next((line for line in self.lines[since:] if all(part in line for part in parts)), None)

        with self._more:
            found = self._more.wait_for(find, TIMEOUT_S)
            assert found is not None, f"no line with {parts} in {self.lines[since:]}"
            return found


class SecureBroker:
    """A broker, what it logs, and the user of each client as it saw them."""

    def __init__(self, options: Mapping[str, str], data: Path) -> None:
        self._options = {
            "log.dirs": str(data),
            "group.initial.rebalance.delay.ms": "0",
            "inter.broker.listener.name": "PLAINTEXT",
            **options,
        }
        self.log = LogLines()
        self.principals: dict[str, set[str]] = {}
        """By client id, who the client was when it sent a request that has a handler of data."""
        self._thread = threading.Thread(target=self._run, name="tailrace-secure", daemon=True)
        self._started: Future[Server] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    def __enter__(self) -> Self:
        logger = logging.getLogger("tailrace")
        self._level_before = logger.level
        logger.setLevel(logging.INFO)
        logger.addHandler(self.log)
        self._thread.start()
        self._server = self._started.result(TIMEOUT_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(TIMEOUT_S)
        logger = logging.getLogger("tailrace")
        logger.removeHandler(self.log)
        logger.setLevel(self._level_before)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await start_server(BrokerConfig(self._options), intercept=self._note)
        # A client that tries again and again must not hide the line about another one.
        for bounded in (server.listeners.failures._log, server.listeners._warnings):
            bounded._lines_max = sys.maxsize
        self._started.set_result(server)
        try:
            await self._stopping.wait()
        finally:
            await server.stop()

    async def _note(self, context: RequestContext, request: Message) -> None:
        connection = context.connection
        if connection.session is None or connection.session.is_complete:
            self.principals.setdefault(context.header.client_id or "", set()).add(connection.principal)

    def address(self, listener: str) -> str:
        """Where a listener is reached."""
        return next(f"{each.host}:{each.port}" for each in self._server.endpoints if each.name == listener)

    def call(self, action: Callable[[Server], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the broker's loop."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(action(self._server), self._loop).result(TIMEOUT_S)

    def set_scram_password(self, user: str, password: str | None) -> None:
        """Give a user a password for both kinds of SCRAM, or revoke it."""

        def change(before: Mapping[str, str]) -> dict[str, str]:
            rest = {name: value for name, value in before.items() if name not in SCRAM_MECHANISMS}
            if password is None:
                return rest
            made = {
                name: format_credential(make_credential(mechanism, password, f"salt of {name}".encode(), 4096))
                for name, mechanism in SCRAM_MECHANISMS.items()
            }
            return {**rest, **made}

        async def write(server: Server) -> None:
            await server.broker.controller.write_config(ConfigKind.USER, user, change, validate_only=False)

        self.call(write)
