"""Who is let in, who is let go, and what thousands of half-open connections cost."""

import errno
import logging
import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.faults.live import LOOPS, TIMEOUT_S, Live, api_versions, is_closed, receive_frame, wait_until

from tailrace.machines.controller.record import CLUSTER_DEFAULT, ConfigKind
from tailrace.server import listener
from tailrace.server.connection import Connection
from tailrace.server.server import Server

BURST_COUNT = 200
BURST_TIMEOUT_S = 60.0


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def answers(peer: socket.socket) -> bool:
    try:
        peer.sendall(api_versions())
        receive_frame(peer)
    except (ConnectionError, AssertionError):
        return False
    return True


def test_one_connection_too_many_from_an_address_is_closed_at_once(
    tmp_path: Path, loop: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Live(tmp_path, {"max.connections.per.ip": "3"}, loop=loop) as live:
        peers = [live.socket() for _ in range(3)]
        assert all(map(answers, peers))
        with live.socket() as extra:
            assert is_closed(extra)
        assert all(map(answers, peers)), "those who were there before stay"
        peers.pop().close()
        wait_until(lambda: live.count() == 2, "one has left")
        with live.socket() as next_one:
            assert answers(next_one)
        for peer in peers:
            peer.close()
        live.wait_until_gone()
        assert not live.server.listeners._count_by_host
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "there are 3 connections from its address already" in line


@pytest.mark.parametrize("option", ["max.connections.per.ip", "max.connections"])
def test_a_limit_of_nobody_lets_nobody_in(tmp_path: Path, loop: str, option: str) -> None:
    with Live(tmp_path, {option: "0"}, loop=loop) as live:
        with live.socket() as peer:
            assert is_closed(peer)
        live.wait_until_gone()


def test_when_there_are_too_many_the_idlest_goes(tmp_path: Path, loop: str, caplog: pytest.LogCaptureFixture) -> None:
    with Live(tmp_path, {"max.connections": "3"}, loop=loop) as live:
        topic = live.asker.topic()
        live.wait_until_gone()
        waiting = live.wire()
        waiting.send_frame(waiting.frame("Fetch", 4, _fetch(topic)))
        wait_until(lambda: any(found._is_serving for found in live.connections()), "a long poll waits")
        first, second = live.socket(), live.socket()
        assert answers(second)
        answered_at = max(found.active_at for found in live.connections())
        wait_until(lambda: live.now() > answered_at, "the loop's clock, which counts milliseconds, has moved")
        assert answers(first)
        wait_until(lambda: live.count() == 3, "all three are there")
        third = live.socket()
        assert answers(third)
        assert is_closed(second), "it was silent for the longest; the long poll is older, but not idle"
        assert answers(first)
        assert live.count() == 3
        for peer in (first, second, third, waiting._socket):
            peer.close()
        live.wait_until_gone()
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "it was the idlest of 3 connections" in line


def _fetch(topic: str) -> dict[str, object]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    return {
        "replica_id": -1,
        "max_wait_ms": 2**31 - 1,
        "min_bytes": 1,
        "max_bytes": 1000,
        "isolation_level": 0,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }


def test_limits_may_change_while_the_server_runs(tmp_path: Path) -> None:
    with Live(tmp_path, {"max.connections.per.ip": "1"}) as live:
        first = live.socket()
        assert answers(first)
        change = live.server.broker.controller.write_config(
            ConfigKind.BROKER, CLUSTER_DEFAULT, lambda _: {"max.connections.per.ip": "2"}, validate_only=False
        )
        live.wait_for(change)
        with live.socket() as second:
            assert answers(second)
        first.close()


def test_a_burst_of_clients_connects_while_the_loop_is_busy(tmp_path: Path) -> None:
    """With Kafka's queue of 50 the later clients of a burst had to try again, a second later each."""
    busy, free = threading.Event(), threading.Event()

    def hold() -> None:
        busy.set()
        free.wait(TIMEOUT_S)

    with Live(tmp_path) as live, ExitStack() as peers:
        peers.callback(free.set)
        live._loop.call_soon_threadsafe(hold)
        assert busy.wait(TIMEOUT_S)
        for _ in range(BURST_COUNT):
            peers.enter_context(socket.create_connection(live.address, timeout=BURST_TIMEOUT_S))
        free.set()
        wait_until(lambda: live.count() == BURST_COUNT, "all are accepted")


def test_a_sweep_that_fails_is_not_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "CONNECTION_SWEEP_INTERVAL_S", 0.001)
    with Live(tmp_path) as live:
        sweeps: list[float] = []

        def fail(now: float) -> None:
            sweeps.append(now)
            raise ZeroDivisionError

        monkeypatch.setattr(live.server.listeners, "sweep", fail)
        wait_until(lambda: len(sweeps) > 1, "it is tried again")
    assert caplog.records[0].getMessage() == "closing idle connections failed"


def test_a_port_that_is_taken_leaves_nothing_behind(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = f"PLAINTEXT://127.0.0.1:{holder.getsockname()[1]}"
        with pytest.raises(OSError, match="ddress already in use"), Live(tmp_path, {"listeners": taken}):
            pass
    with Live(tmp_path) as live:
        live.assert_serves()


def test_any_port_on_every_interface_is_one_port_for_all_address_families(tmp_path: Path, loop: str) -> None:
    """The system gives IPv4 and IPv6 a free port each; clients are told one, and `localhost` may mean either."""
    with Live(tmp_path, {"listeners": "PLAINTEXT://:0"}, loop=loop) as live:
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with socket.socket(family) as peer:
                try:
                    peer.connect((host, live.address[1]))
                except OSError as error:
                    if family == socket.AF_INET6 and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                        continue  # a machine without IPv6
                    raise
                assert answers(peer)


def test_a_server_says_where_it_listens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with Live(tmp_path) as live:
        assert isinstance(live.server, Server)
        lines = [record.getMessage() for record in caplog.records if "listening" in record.getMessage()]
        assert lines == [f"listening for PLAINTEXT on 127.0.0.1:{live.address[1]}"]


def test_a_connection_whose_turn_comes_after_the_end_is_let_go(tmp_path: Path) -> None:
    """A peer connected while the server stopped, and its connection was left to the garbage collector."""
    with Live(tmp_path) as live:
        live.assert_serves()
    late = SimpleNamespace(listener_name="PLAINTEXT", host="127.0.0.1")
    assert live.server.listeners.admit(cast("Connection", late)) == "the broker stops"
