"""The socket of a simulated connection: the options that programs set, and the keepalive probes of its kernel."""

import socket
from contextvars import Context
from enum import Enum
from typing import Any, Protocol

_PROBES = (socket.SOL_SOCKET, socket.SO_KEEPALIVE)
_EVERY_S = (socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPIDLE", 4))  # Linux's numbers, for systems that have none
_LIMIT_MS = (socket.IPPROTO_TCP, getattr(socket, "TCP_USER_TIMEOUT", 18))


class Probe(Enum):
    """What a kernel learns from a probe."""

    ANSWERED = "answered"
    UNANSWERED = "unanswered"
    OVER = "over"  # the connection has ended, or ends now


class Probed(Protocol):
    """The part of a transport that its socket uses."""

    _wire: Any

    def probe_peer(self) -> Probe: ...

    def time_out(self) -> None: ...


class SimSocket:
    """The socket of a transport, as far as programs use it.

    A program that sets how soon and for how long its kernel probes the peer learns that the peer's host has lost its
    power, or that the connection is silent. The default times are hours, as good as none.
    """

    def __init__(self, transport: Probed) -> None:
        self._transport = transport
        self._options: dict[tuple[int, int], Any] = {}
        self._heard_s: float | None = None  # None: there are no probes

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        """Set an option. Probes begin when all options for them are set."""
        self._options[level, option] = value
        if self._heard_s is None and {_PROBES, _EVERY_S, _LIMIT_MS} <= self._options.keys():
            self._heard_s = self._loop.time()
            self._probe_later()

    def _probe_later(self) -> None:
        when_s = self._loop.time() + self._options[_EVERY_S]
        self._loop.call_at(when_s, self._probe, context=Context())

    def _probe(self) -> None:
        now_s = self._loop.time()
        match self._transport.probe_peer():
            case Probe.OVER:
                return
            case Probe.ANSWERED:
                self._heard_s = now_s
            case Probe.UNANSWERED if now_s - (self._heard_s or 0.0) >= self._options[_LIMIT_MS] / 1000:
                self._transport.time_out()
                return
        self._probe_later()

    @property
    def _loop(self) -> Any:
        return self._transport._wire.loop
