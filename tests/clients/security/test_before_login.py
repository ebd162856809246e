"""What a client may do before it has logged in, and clients that speak another protocol than the listener."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Iterator

import pytest
from tests.clients.raw import CLOSED, Wire
from tests.clients.security.ground import PLAIN_USER, Ground, open_ground
from tests.clients.security.raw_login import PLAIN_MESSAGE, TlsWire, authenticate, handshake, log_in, tls_context
from tests.eventual import eventually

from tailrace.server.server import Server

ILLEGAL_SASL_STATE, UNSUPPORTED_SASL_MECHANISM, SASL_AUTHENTICATION_FAILED = 34, 33, 58
HANDSHAKE_TIMEOUT_MS = 1000
LOGIN_TIMEOUT_S = 30
TOO_LATE = f"the client has not logged in within {LOGIN_TIMEOUT_S} s"


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A broker that waits a second for the end of a TLS handshake."""
    more = {"tailrace.authentication.timeout.ms": str(HANDSHAKE_TIMEOUT_MS)}
    with open_ground(tmp_path_factory.mktemp("hasty"), more) as opened:
        yield opened


def wire(ground: Ground, listener: str = "SASL_PLAINTEXT") -> Wire:
    return Wire(ground.broker.address(listener))


# --- requests before the login


def test_api_versions_needs_no_login(ground: Ground) -> None:
    with wire(ground) as bare:
        assert not isinstance(bare.ask("ApiVersions", 0), str)
        log_in(bare)
        assert not isinstance(bare.ask("Metadata", 1, topics=[]), str)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("after_handshake", [False, True])
def test_request_before_login(ground: Ground, listener: str, after_handshake: bool) -> None:
    since = len(ground.broker.log.lines)
    with wire(ground) if listener == "SASL_PLAINTEXT" else TlsWire(ground, listener) as bare:
        if after_handshake:
            handshake(bare)
        assert bare.ask("Metadata", 1, topics=[]) == CLOSED
    ground.broker.log.wait_for("METADATA came before the client had logged in", since=since)


def test_authenticate_without_handshake(ground: Ground) -> None:
    with wire(ground) as bare:
        assert authenticate(bare) == CLOSED


def test_large_frame_before_login(ground: Ground) -> None:
    since = len(ground.broker.log.lines)
    with wire(ground) as bare:
        bare.send(struct.pack(">i", 600 * 1024))
        assert bare.receive() == CLOSED
    ground.broker.log.wait_for("a frame of 614400 bytes; the limit is 524288", since=since)


def test_large_frame_after_login(ground: Ground) -> None:
    with wire(ground) as bare:
        log_in(bare)
        bare.send_frame(bare.frame("Metadata", 1, {"topics": []}) + bytes(600 * 1024))
        assert not isinstance(bare.answer("Metadata", 1), str)


def test_unknown_mechanism(ground: Ground) -> None:
    with wire(ground) as bare:
        answer = handshake(bare, "GSSAPI")
        assert not isinstance(answer, str)
        assert answer["error_code"] == UNSUPPORTED_SASL_MECHANISM
        assert "PLAIN" in answer["mechanisms"]
        assert bare.receive() == CLOSED


def test_wrong_password(ground: Ground) -> None:
    with wire(ground) as bare:
        handshake(bare)
        answer = authenticate(bare, f"\0{PLAIN_USER.name}\0not-it".encode())
        assert not isinstance(answer, str)
        assert answer["error_code"] == SASL_AUTHENTICATION_FAILED
        assert answer["error_message"] == "Authentication failed: Invalid username or password"
        assert bare.receive() == CLOSED


def test_handshake_after_login(ground: Ground) -> None:
    """A login without a lifetime is not repeated; the client goes on with the one it has."""
    with wire(ground) as bare:
        log_in(bare)
        answer = handshake(bare)
        assert not isinstance(answer, str)
        assert answer["error_code"] == ILLEGAL_SASL_STATE
        assert not isinstance(bare.ask("Metadata", 1, topics=[]), str)


def test_handshake_on_a_listener_without_sasl(ground: Ground) -> None:
    with wire(ground, "PLAINTEXT") as bare:
        answer = handshake(bare)
        assert not isinstance(answer, str)
        assert answer["error_code"] == ILLEGAL_SASL_STATE


# --- bare tokens, as clients of Kafka 0.9 send them


def test_bare_token(ground: Ground) -> None:
    with wire(ground) as bare:
        handshake(bare, version=0)
        bare.send_frame(PLAIN_MESSAGE)
        assert bare.receive() == b""
        assert not isinstance(bare.ask("Metadata", 1, topics=[]), str)


def test_wrong_bare_token(ground: Ground) -> None:
    since = len(ground.broker.log.lines)
    with wire(ground) as bare:
        handshake(bare, version=0)
        bare.send_frame(b"\0mallory\0guess")
        assert bare.receive() == CLOSED
    ground.broker.log.wait_for("by PLAIN: unknown user mallory", since=since)


# --- another protocol than that of the listener


@pytest.mark.parametrize(
    ("listener", "sent", "reason"),
    [
        pytest.param("SSL", struct.pack(">ihhih", 10, 18, 0, 1, -1), "the client speaks no TLS", id="Kafka to TLS"),
        pytest.param("SSL", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "the client speaks HTTP", id="HTTP to TLS"),
        pytest.param(
            "PLAINTEXT", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "the client speaks HTTP", id="HTTP to plaintext"
        ),
        pytest.param("SASL_PLAINTEXT", b"POST /x HTTP/1.1\r\n\r\n", "the client speaks HTTP", id="HTTP to SASL"),
    ],
)
def test_other_protocol(ground: Ground, listener: str, sent: bytes, reason: str) -> None:
    since = len(ground.broker.log.lines)
    with wire(ground, listener) as bare:
        bare.send(sent)
        bare.receive()  # to a client of another protocol, an alert of TLS is no frame
    ground.broker.log.wait_for(reason, since=since)


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_tls_to_plaintext(ground: Ground, listener: str) -> None:
    since = len(ground.broker.log.lines)
    host, port = ground.broker.address(listener).split(":")
    with socket.create_connection((host, int(port))) as tcp, pytest.raises((ssl.SSLError, ConnectionError)):
        tls_context(ground).wrap_socket(tcp, server_hostname=host)
    ground.broker.log.wait_for("the client speaks TLS on a plaintext listener", since=since)


# --- clients that do not finish


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"], ids=["silent", "a part of its hello"])
def test_unfinished_tls_handshake(hasty: Ground, sent: bytes) -> None:
    since = len(hasty.broker.log.lines)
    with wire(hasty, "SSL") as bare:
        bare.send(sent)
        assert bare.receive() == CLOSED
        peer = f"127.0.0.1:{bare._socket.getsockname()[1]}"
    hasty.broker.log.wait_for(peer, since=since)
    assert len([line for line in hasty.broker.log.lines[since:] if peer in line]) == 1


def let_time_pass(ground: Ground, *, since: int) -> None:
    """Have the broker look for late logins as if the time for them were over, until it has closed a connection."""

    async def sweep(server: Server) -> None:
        server.listeners.sweep(asyncio.get_running_loop().time() + LOGIN_TIMEOUT_S + 1)

    def is_closed() -> bool:
        ground.broker.call(sweep)  # the broker may not have accepted the connection the time before
        return any(TOO_LATE in line for line in ground.broker.log.lines[since:])

    assert eventually(is_closed, bool)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("after_handshake", [False, True])
def test_unfinished_login(ground: Ground, listener: str, after_handshake: bool) -> None:
    since = len(ground.broker.log.lines)
    with wire(ground) if listener == "SASL_PLAINTEXT" else TlsWire(ground, listener) as bare:
        if after_handshake:
            handshake(bare)
        let_time_pass(ground, since=since)
        assert bare.receive() == CLOSED


def test_login_in_time_is_kept(ground: Ground) -> None:
    since = len(ground.broker.log.lines)
    with wire(ground) as logged_in, wire(ground) as late:
        log_in(logged_in)
        let_time_pass(ground, since=since)
        assert late.receive() == CLOSED
        assert not isinstance(logged_in.ask("Metadata", 1, topics=[]), str)


# --- data that comes together with the end of the TLS handshake


@pytest.mark.parametrize("size_bytes", [0, 1000, 300_000], ids=["nothing more", "a small frame", "a large frame"])
def test_request_in_the_flight_of_the_finished_message(ground: Ground, size_bytes: int) -> None:
    """With TLS 1.3 a client may send requests together with the last message of its handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = tls_context(ground).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with wire(ground, "SSL") as bare:
        frames = [bare.frame("Metadata", 1, {"topics": []}) + bytes(size) for size in (size_bytes, 0)]
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        while not _is_complete(tls, bare, incoming, outgoing):
            pass
        tls.write(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
        bare.send(outgoing.read())
        answered = b""
        while _frame_count(answered) < len(frames):
            try:
                answered += tls.read(65536)
            except ssl.SSLWantReadError:
                _receive(bare, incoming)


def _is_complete(tls: ssl.SSLObject, bare: Wire, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> bool:
    """Go on with a handshake; what its last step has to send stays in `outgoing`."""
    bare.send(outgoing.read())
    _receive(bare, incoming)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _receive(bare: Wire, incoming: ssl.MemoryBIO) -> None:
    received = bare._socket.recv(65536)
    assert received, "the broker closed the connection"
    incoming.write(received)


def _frame_count(data: bytes) -> int:
    count = 0
    while len(data) >= 4 and len(data) >= 4 + struct.unpack_from(">i", data)[0]:
        data = data[4 + struct.unpack_from(">i", data)[0] :]
        count += 1
    return count
