"""Bytes that no client would send to a listener with SASL or TLS, over sockets to a live broker.

Each gets Kafka's error code or a closed connection, and one line in the log; other clients do not notice.
"""

from __future__ import annotations

import logging
import socket
import ssl
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.live import (
    TIMEOUT_S,
    Live,
    api_versions,
    framed,
    is_closed,
    receive_frame,
    request_header,
    wait_until,
)
from tests.logged import own_records
from tests.unit.security.tls.tls_files import Authority

from tailrace.protocol.errors import ErrorCode
from tailrace.server.security.failure_log import FailureLog

RECEIVE_BYTES_MAX = 524_288
LOGIN_S = 30
OPTIONS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,MUTUAL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,MUTUAL:SSL",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.name.mutual.ssl.client.auth": "required",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a-secret";'
    ),
    "connection.failed.authentication.delay.ms": "0",
    "tailrace.authentication.timeout.ms": str(LOGIN_S * 1000),
}
METADATA = framed(request_header(3, 1) + struct.pack(">i", 0))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("logins")
    (folder / "ca.pem").write_text(authority.pem)
    files = {
        "ssl.keystore.location": authority.issue("localhost").write_pem(folder / "broker.pem"),
        "ssl.truststore.location": str(folder / "ca.pem"),
    }
    with Live(folder / "data", {**OPTIONS, **files}) as running:
        yield running


@pytest.fixture(autouse=True)
def other_clients_do_not_notice(live: Live, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    live.server.listeners.failures = FailureLog(live.server.broker.clock)  # it bounds the lines of a minute
    yield
    live.assert_serves()
    live.wait_until_gone()
    assert all("a-secret" not in record.getMessage() for record in caplog.records)


def connect(live: Live, listener: str = "SASL_PLAINTEXT") -> socket.socket:
    endpoint = next(each for each in live.server.endpoints if each.name == listener)
    return socket.create_connection((endpoint.host, endpoint.port), TIMEOUT_S)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in own_records(caplog) if record.levelno >= logging.WARNING]


def handshake(mechanism: str, version: int = 1) -> bytes:
    return framed(request_header(17, version) + struct.pack(">h", len(mechanism)) + mechanism.encode())


def authenticate(token: bytes) -> bytes:
    return framed(request_header(36, 0) + struct.pack(">i", len(token)) + token)


def refusal(frame: bytes) -> tuple[int, str]:
    """The code and the text of an answer to SaslAuthenticate."""
    code, size = struct.unpack_from(">hh", frame, 4)
    return code, frame[8 : 8 + size].decode()


# --- 44: requests before the login


@pytest.mark.parametrize(
    ("before", "request_bytes", "name"),
    [
        (b"", METADATA, "METADATA"),
        (b"", framed(request_header(0, 3) + b"\xff" * 50), "PRODUCE"),
        (b"", framed(request_header(999, 0)), "API key 999"),
        (b"", authenticate(b"\0alice\0a-secret"), "SASL_AUTHENTICATE"),
        (api_versions(), api_versions(), "API_VERSIONS"),
        (handshake("PLAIN"), METADATA, "METADATA"),
        (handshake("PLAIN"), handshake("PLAIN"), "SASL_HANDSHAKE"),
    ],
)
def test_a_request_before_the_login_is_not_answered(
    live: Live, before: bytes, request_bytes: bytes, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka answers the one after the handshake with ILLEGAL_SASL_STATE; here its body is not even read."""
    with connect(live) as peer:
        if before:
            peer.sendall(before)
            receive_frame(peer)
        peer.sendall(request_bytes)
        assert peer.recv(1) == b""
    live.wait_until_gone()
    (line,) = lines(caplog)
    assert f"{name} came before the client had logged in" in line


def test_a_request_behind_a_refused_login_is_not_answered(live: Live) -> None:
    with connect(live) as peer:
        peer.sendall(handshake("PLAIN") + authenticate(b"\0alice\0wrong") + METADATA)
        receive_frame(peer)
        assert refusal(receive_frame(peer))[0] == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert peer.recv(1) == b""


# --- 45, 46: mechanisms and tokens


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", "", "x" * 30_000, "SCRAM-SHA-512"])
def test_an_unknown_mechanism_is_told_those_that_there_are(
    live: Live, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(live) as peer:
        peer.sendall(handshake(mechanism))
        reply = receive_frame(peer)
        assert struct.unpack_from(">hi", reply, 4) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, 2)
        assert b"PLAIN" in reply
        assert b"SCRAM-SHA-256" in reply
        assert is_closed(peer)
    live.wait_until_gone()
    assert len(lines(caplog)) == 1
    assert len(lines(caplog)[0]) < 500


@pytest.mark.parametrize("version", [0, 1])
def test_a_frame_before_the_login_is_small(live: Live, version: int, caplog: pytest.LogCaptureFixture) -> None:
    with connect(live) as peer:
        peer.sendall(handshake("PLAIN", version))
        receive_frame(peer)
        peer.sendall(struct.pack(">i", RECEIVE_BYTES_MAX + 1) + b"\0alice\0a-secret")
        assert is_closed(peer)
    live.wait_until_gone()
    (line,) = lines(caplog)
    assert f"a frame of {RECEIVE_BYTES_MAX + 1} bytes; the limit is {RECEIVE_BYTES_MAX}" in line


def test_a_frame_after_the_login_may_be_larger(live: Live) -> None:
    with connect(live) as peer:
        peer.sendall(handshake("PLAIN") + authenticate(b"\0alice\0a-secret"))
        receive_frame(peer)
        assert refusal(receive_frame(peer))[0] == 0
        peer.sendall(framed(request_header(3, 1) + struct.pack(">i", 0) + bytes(RECEIVE_BYTES_MAX)))
        assert receive_frame(peer)


def test_a_bare_token_where_a_request_is_expected(live: Live) -> None:
    with connect(live) as peer:
        peer.sendall(handshake("PLAIN", 1))
        receive_frame(peer)
        peer.sendall(framed(b"\0alice\0a-secret"))
        assert peer.recv(1) == b""


def test_a_request_where_a_bare_token_is_expected(live: Live) -> None:
    with connect(live) as peer:
        peer.sendall(handshake("PLAIN", 0))
        receive_frame(peer)
        peer.sendall(METADATA)
        assert peer.recv(1) == b""


# --- 47: refused logins


BAD_LOGINS = {
    "a wrong password": b"\0alice\0wrong",
    "an unknown user": b"\0nemo\0a-secret",
    "another authorization id": b"bob\0alice\0a-secret",
    "no password": b"\0alice\0",
    "no parts": b"alice",
    "an empty token": b"",
    "too many parts": b"\0alice\0a-secret\0",
    "not UTF-8": b"\0alice\0\xff\xfe",
    "a long password": b"\0alice\0" + b"x" * 100_000,
}


@pytest.mark.parametrize("token", BAD_LOGINS.values(), ids=BAD_LOGINS)
def test_a_refused_login_does_not_say_why(live: Live, token: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with connect(live) as peer:
        peer.sendall(handshake("PLAIN") + authenticate(token))
        receive_frame(peer)
        code, text = refusal(receive_frame(peer))
        assert code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert text == "Authentication failed: Invalid username or password"
        assert is_closed(peer)
    live.wait_until_gone()
    (line,) = [line for line in lines(caplog) if "refused the login" in line]
    assert "wrong" not in line.replace("wrong password", "")


def test_a_refused_login_is_answered_after_a_delay(tmp_path: Path) -> None:
    options = {name: text for name, text in OPTIONS.items() if "ssl" not in name and "delay" not in name}
    options["listeners"] = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
    options["connection.failed.authentication.delay.ms"] = "3600000"
    with Live(tmp_path, options) as slow, connect(slow) as peer:
        peer.sendall(handshake("PLAIN") + authenticate(b"\0alice\0wrong"))
        receive_frame(peer)
        wait_until(lambda: any(found._is_serving for found in slow.connections()), "the answer waits")
        slow.assert_serves()
        peer.settimeout(0.1)
        with pytest.raises(TimeoutError):
            peer.recv(1)


# --- 50: delegation tokens


def test_a_client_without_a_login_gets_no_token(live: Live) -> None:
    with connect(live, "PLAINTEXT") as peer:
        peer.sendall(framed(request_header(38, 1) + struct.pack(">iq", 0, -1)))
        (code,) = struct.unpack_from(">h", receive_frame(peer), 4)
    assert code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


# --- 54: TLS


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (api_versions(), "the client speaks no TLS"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "the client speaks HTTP without TLS"),
        (b"\x16\x03\x01\x40\x00" + bytes(100), ""),
        (b"\x80\x2e\x01\x00\x02" + bytes(60), ""),
    ],
)
def test_what_is_no_tls_is_closed(live: Live, data: bytes, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    with connect(live, "SSL") as peer:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        assert is_closed(peer)
    live.wait_until_gone()
    (line,) = lines(caplog)
    assert line.startswith("no TLS with 127.0.0.1:")
    assert reason in line


def trusting(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.pem)
    context.check_hostname = False
    return context


def speaks(context: ssl.SSLContext, peer: socket.socket) -> bool:
    """Whether the broker answers over TLS. With TLS 1.3 a client learns of a refusal when it reads."""
    try:
        with context.wrap_socket(peer, do_handshake_on_connect=False) as wrapped:
            wrapped.do_handshake()
            wrapped.sendall(api_versions())
            return bool(wrapped.recv(1))
    except OSError:
        return False


def test_a_client_with_tls_is_answered(live: Live, authority: Authority) -> None:
    with connect(live, "SSL") as peer:
        assert speaks(trusting(authority), peer)


def test_an_old_version_of_tls_is_refused(live: Live, authority: Authority) -> None:
    context = trusting(authority)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore"):
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with connect(live, "SSL") as peer:
        assert not speaks(context, peer)


@pytest.mark.parametrize("case", ["none", "another authority", "expired"])
def test_a_bad_certificate_of_a_client_is_refused(
    live: Live, authority: Authority, case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = trusting(authority)
    if case != "none":
        issuer = authority if case == "expired" else Authority("another")
        context.load_cert_chain(issuer.issue("dora", expired=case == "expired").write_pem(tmp_path / "dora.pem"))
    with connect(live, "MUTUAL") as peer:
        assert not speaks(context, peer)
    live.wait_until_gone()
    (line,) = lines(caplog)
    assert "certificate" in line


def test_no_client_can_renegotiate(live: Live) -> None:
    context = live.server.listeners.guards["SSL"].tls
    assert context is not None
    assert context.options & ssl.OP_NO_RENEGOTIATION


# --- time


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SSL"])
def test_a_client_that_does_not_log_in_is_dropped(live: Live, listener: str, caplog: pytest.LogCaptureFixture) -> None:
    """Requests that it may send meanwhile give it no more time."""
    with connect(live, listener) as peer:
        if listener == "SASL_PLAINTEXT":
            peer.sendall(api_versions())
            receive_frame(peer)
        wait_until(lambda: live.count() == 1, "it is counted")
        live.sweep_later(LOGIN_S - 5)
        assert live.count() == 1
        live.sweep_later(LOGIN_S + 1)
        assert is_closed(peer)
    live.wait_until_gone()
    assert "the client has not logged in within 30 s" in lines(caplog)[0]


def test_a_client_that_has_logged_in_may_stay(live: Live) -> None:
    with connect(live) as peer:
        peer.sendall(handshake("PLAIN") + authenticate(b"\0alice\0a-secret"))
        receive_frame(peer)
        receive_frame(peer)
        live.sweep_later(LOGIN_S + 1)
        peer.sendall(METADATA)
        assert receive_frame(peer)
