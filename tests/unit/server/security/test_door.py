"""The door of a listener with TLS, where an event loop ends a handshake without success and without an error."""

import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from tailrace.server.security.door import TlsDoor

TIMEOUT_S = 30.0


class Loop:
    """An event loop whose handshake takes some time and returns the transport of a connection that is gone."""

    def __init__(self, takes_s: float) -> None:
        self._now_s = 0.0
        self._takes_s = takes_s

    def time(self) -> float:
        return self._now_s

    async def start_tls(self, *_: Any, **__: Any) -> Any:
        self._now_s += self._takes_s
        return SimpleNamespace(get_extra_info=lambda _: None)


@pytest.mark.parametrize(("takes_s", "logged"), [(1.0, []), (TIMEOUT_S, [TimeoutError])], ids=["left", "stayed"])
@pytest.mark.parametrize("has_login", [False, True])
async def test_a_handshake_without_success_is_not_served(
    takes_s: float, logged: list[type[Exception]], has_login: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop does so; the door then asked for the certificate of nothing, and its task failed unseen."""
    abandoned: list[bool] = []
    errors: list[type[Exception]] = []
    connection: Any = SimpleNamespace(abandon=lambda: abandoned.append(True))
    guard: Any = SimpleNamespace(
        tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), limits=SimpleNamespace(timeout_s=TIMEOUT_S), has_login=has_login
    )
    failures: Any = SimpleNamespace(handshake=lambda _, error: errors.append(type(error)))
    loop = Loop(takes_s)
    monkeypatch.setattr("asyncio.get_running_loop", lambda: loop)
    transport: Any = SimpleNamespace()
    await TlsDoor(connection, guard, failures)._open(transport)
    monkeypatch.undo()
    assert (abandoned, errors) == ([True], logged)
