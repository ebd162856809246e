"""The limits of clients that have not logged in: a listener may have its own, beside those of the broker."""

import socket
import struct
from collections.abc import Iterator

import pytest
from tests.faults.live import TIMEOUT_S, Live, framed, is_closed, receive_frame, request_header, wait_until

OPTIONS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,WIDE://127.0.0.1:0,STRICT://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,WIDE:SASL_PLAINTEXT,STRICT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a-secret";',
    "connection.failed.authentication.delay.ms": "0",
    "listener.name.strict.sasl.server.max.receive.size": "100",
    "listener.name.strict.connection.failed.authentication.delay.ms": "3600000",
    "tailrace.authentication.timeout.ms": "600000",
    "listener.name.strict.tailrace.authentication.timeout.ms": "60000",
}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with Live(tmp_path_factory.mktemp("limits"), OPTIONS) as running:
        yield running


@pytest.fixture
def wide(live: Live) -> Iterator[socket.socket]:
    with _connect(live, "WIDE") as peer:
        yield peer


@pytest.fixture
def strict(live: Live) -> Iterator[socket.socket]:
    with _connect(live, "STRICT") as peer:
        yield peer


def _connect(live: Live, listener: str) -> socket.socket:
    endpoint = next(each for each in live.server.endpoints if each.name == listener)
    return socket.create_connection((endpoint.host, endpoint.port), TIMEOUT_S)


def authenticate(token: bytes) -> bytes:
    return framed(request_header(36, 0) + struct.pack(">i", len(token)) + token)


def choose_plain(peer: socket.socket) -> None:
    peer.sendall(framed(request_header(17, 1) + struct.pack(">h5s", 5, b"PLAIN")))
    receive_frame(peer)


def test_the_size_of_a_token(wide: socket.socket, strict: socket.socket) -> None:
    """The listener's own limit was accepted and ignored, as were the two below."""
    long_token = b"\0alice\0" + b"x" * 100
    for peer in (wide, strict):
        choose_plain(peer)
        peer.sendall(authenticate(long_token))
    assert receive_frame(wide)
    assert strict.recv(1) == b""


def test_the_answer_to_a_refused_login_waits(live: Live, wide: socket.socket, strict: socket.socket) -> None:
    for peer in (wide, strict):
        choose_plain(peer)
        peer.sendall(authenticate(b"\0alice\0wrong"))
    assert receive_frame(wide)
    wait_until(lambda: any(each._is_serving for each in live.connections()), "the answer of the strict one waits")
    strict.settimeout(0.1)
    with pytest.raises(TimeoutError):
        strict.recv(1)


def test_the_time_to_log_in(live: Live, wide: socket.socket, strict: socket.socket) -> None:
    for peer in (wide, strict):
        choose_plain(peer)
    live.sweep_later(61)
    assert is_closed(strict)
    wide.sendall(authenticate(b"\0alice\0a-secret"))
    assert receive_frame(wide)[4:6] == b"\0\0"
