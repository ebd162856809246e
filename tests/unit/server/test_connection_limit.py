"""Which connection goes when there are too many: of a listener, or of all."""

import logging
import socket
import struct
from pathlib import Path

import pytest
from tests.faults.live import LOOPS, TIMEOUT_S, Live, api_versions, framed, is_closed, receive_frame, request_header
from tests.faults.live import wait_until as until

SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a-secret" user_bob="b-secret";'
    ),
}


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def connect(live: Live, listener: str) -> socket.socket:
    """Connect to a listener, and wait until the broker counts the connection."""
    before = live.count()
    endpoint = next(each for each in live.server.endpoints if each.name == listener)
    peer = socket.create_connection((endpoint.host, endpoint.port), TIMEOUT_S)
    limit = int(live.server.broker.config.max_connections)
    until(lambda: live.count() in (before + 1, limit) and _is_counted(live, peer), "the connection is counted")
    return peer


def _is_counted(live: Live, peer: socket.socket) -> bool:
    return f"{peer.getsockname()[0]}:{peer.getsockname()[1]}" in [found.peer for found in live.connections()]


def log_in(peer: socket.socket) -> None:
    token = b"\0alice\0a-secret"
    peer.sendall(framed(request_header(17, 1) + struct.pack(">h5s", 5, b"PLAIN")))
    receive_frame(peer)
    peer.sendall(framed(request_header(36, 0) + struct.pack(">i", len(token)) + token))
    assert receive_frame(peer)[4:6] == b"\0\0"


def answers(peer: socket.socket) -> bool:
    peer.sendall(api_versions())
    return bool(receive_frame(peer))


def dropped(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for record in caplog.records if "dropped" in (line := record.getMessage())]


def test_connections_without_a_login_go_first(tmp_path: Path, loop: str, caplog: pytest.LogCaptureFixture) -> None:
    """A flood of connections that never log in must not push out clients that have."""
    with Live(tmp_path, {**SASL, "max.connections": "3"}, loop=loop) as live:
        user = connect(live, "SASL_PLAINTEXT")
        log_in(user)
        first, second = (connect(live, "SASL_PLAINTEXT") for _ in range(2))
        flood = [connect(live, "SASL_PLAINTEXT") for _ in range(5)]
        assert is_closed(first)
        assert is_closed(second)
        assert answers(user), "it is the oldest and the idlest, and it has logged in"
        assert live.count() == 3
        for peer in (user, first, second, *flood):
            peer.close()
        live.wait_until_gone()
    assert [line.partition(": ")[2] for line in dropped(caplog)] == ["it was the idlest of 3 connections"] * 5


def test_connections_of_other_brokers_stay(tmp_path: Path, loop: str) -> None:
    with Live(tmp_path, {**SASL, "max.connections": "2"}, loop=loop) as live:
        broker = connect(live, "INTERNAL")
        clients = [connect(live, "SASL_PLAINTEXT") for _ in range(4)]
        assert answers(broker)
        assert [is_closed(peer) for peer in clients[:3]] == [True] * 3
        for peer in (broker, *clients):
            peer.close()
        live.wait_until_gone()


def test_a_listener_has_a_limit_of_its_own(tmp_path: Path, loop: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    options = {**SASL, "listener.name.sasl_plaintext.max.connections": "2"}
    with Live(tmp_path, options, loop=loop) as live:
        others = [connect(live, "INTERNAL") for _ in range(3)]
        peers = [connect(live, "SASL_PLAINTEXT") for _ in range(2)]
        extra = socket.create_connection(live.address, TIMEOUT_S)
        assert is_closed(peers[0])
        until(lambda: _is_counted(live, extra), "the newest is counted")
        assert live.count() == 5
        assert all(map(answers, others)), "the other listener is not concerned"
        for peer in (*others, *peers, extra):
            peer.close()
        live.wait_until_gone()
        assert not +live.server.listeners._count_by_listener
    (line,) = dropped(caplog)
    assert "it was the idlest of 2 connections of SASL_PLAINTEXT" in line


def test_a_listener_with_the_limit_0_lets_no_client_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Live(tmp_path, {**SASL, "listener.name.sasl_plaintext.max.connections": "0"}) as live:
        with socket.create_connection(live.address, TIMEOUT_S) as peer:
            assert is_closed(peer)
        with connect(live, "INTERNAL") as other:
            assert answers(other)
        live.wait_until_gone()
    assert "listener.name.sasl_plaintext.max.connections is 0" in dropped(caplog)[0]
