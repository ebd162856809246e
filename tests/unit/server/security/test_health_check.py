"""Load balancers connect and close without a byte to see whether a broker is there; that is no failed login."""

import gc
import logging
import socket
import struct
from collections.abc import Iterator

import pytest
from tests.faults.live import LOOPS, TIMEOUT_S, Live, is_closed, wait_until
from tests.unit.security.tls.tls_files import Authority

from tailrace.server.connection import Connection

OPTIONS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
}
LISTENERS = ["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"]


@pytest.fixture(scope="module", params=LOOPS)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("health")
    keystore = {"ssl.keystore.location": Authority().issue("localhost").write_pem(folder / "broker.pem")}
    with Live(folder / "data", {**OPTIONS, **keystore}, loop=request.param) as running:
        yield running


def connect(live: Live, listener: str) -> socket.socket:
    endpoint = next(each for each in live.server.endpoints if each.name == listener)
    return socket.create_connection((endpoint.host, endpoint.port), TIMEOUT_S)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the broker of this module has logged; brokers of other tests may log meanwhile."""
    records = [record for record in caplog.records if record.threadName == "live-server"]
    return [record.getMessage() for record in records if record.levelno > logging.DEBUG and record.name != "asyncio"]


def no_task_has_failed(live: Live, caplog: pytest.LogCaptureFixture) -> bool:
    """Whether all tasks of doors have ended without an error, which asyncio logs when it collects them.

    The tasks are young. To collect the oldest objects of a whole test run, too, takes seconds each time.
    """
    live.call(lambda: gc.collect(1))
    return not any(record.name == "asyncio" and "TlsDoor" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after it was accepted"])
@pytest.mark.parametrize("resets", [False, True], ids=["close", "reset"])
def test_a_connection_without_a_byte_is_not_logged(
    live: Live,
    listener: str,
    waits: bool,
    resets: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each check of a TLS listener was logged as a handshake that had failed."""
    caplog.set_level(logging.DEBUG)
    admitted: list[object] = []
    admit = live.server.listeners.admit

    def note(arrived: Connection) -> str | None:
        admitted.append(arrived)
        return admit(arrived)

    monkeypatch.setattr(live.server.listeners, "admit", note)
    peer = connect(live, listener)
    if waits:
        wait_until(lambda: admitted, "it is accepted")
    if resets:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    wait_until(lambda: admitted, "it was accepted")
    live.wait_until_gone()
    assert no_task_has_failed(live, caplog)
    assert lines(caplog) == []


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_a_client_that_stays_and_sends_nothing_is_logged(
    live: Live, listener: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The event loops end such a handshake with an error that looks like that of a client who left."""
    guard = live.server.listeners.guards[listener]
    monkeypatch.setattr(guard, "limits", guard.limits._replace(timeout_s=0.05))
    with connect(live, listener) as peer:
        assert is_closed(peer)
    live.wait_until_gone()
    wait_until(lambda: lines(caplog), "it is logged")
    (line,) = lines(caplog)
    assert any(text in line for text in ("is taking longer than", "took too long", "has not logged in"))
    assert no_task_has_failed(live, caplog)


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_a_client_that_leaves_in_the_middle_of_its_handshake_is_logged(
    live: Live, listener: str, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(live, listener) as peer:
        peer.sendall(b"\x16\x03\x01\x02\x00\x01")
        peer.shutdown(socket.SHUT_WR)
        assert is_closed(peer)
    live.wait_until_gone()
    wait_until(lambda: lines(caplog), "it is logged")
    (line,) = lines(caplog)
    assert line.startswith("no TLS with 127.0.0.1:")
    assert no_task_has_failed(live, caplog)
