"""The rate of new connections, on a clock that stands still, and on real sockets."""

import errno
import logging
import os
import socket
from pathlib import Path

import pytest
from tests.faults.live import LOOPS, Live, api_versions, is_closed, receive_frame, wait_until
from tests.unit.sample import BrokerInMemory, ManualClock

from tailrace.base.limits import CONNECTION_WAIT_MS_MAX
from tailrace.config.listener import Endpoint
from tailrace.machines.quota.entity import DEFAULT, Part, QuotaEntity
from tailrace.runtime.broker import Broker
from tailrace.server.quota.connection_rate import OPEN, ConnectionRates, connections_per_ip

CLIENT = Endpoint("CLIENT", "127.0.0.1", 9092, "PLAINTEXT")
BROKER = Endpoint("BROKER", "127.0.0.1", 9093, "PLAINTEXT")
TWO_LISTENERS = {
    "listeners": "CLIENT://127.0.0.1:9092,BROKER://127.0.0.1:9093",
    "listener_security_protocol_map": "CLIENT:PLAINTEXT,BROKER:PLAINTEXT",
    "inter_broker_listener_name": "BROKER",
}


async def limit(broker: Broker, ip: Part, rate: int) -> None:
    kind, name = QuotaEntity(ip=ip).place
    values = {"connection_creation_rate": str(rate)}
    await broker.controller.write_config(kind, name, lambda _: values, validate_only=False)


async def test_without_a_rate_nothing_is_judged() -> None:
    async with BrokerInMemory().running(**TWO_LISTENERS) as broker:
        rates = ConnectionRates(broker)
        assert not rates.is_limited(CLIENT)
        await limit(broker, "10.0.0.1", 1)
        assert rates.is_limited(CLIENT)


async def test_connections_over_the_rate_wait_for_their_turn() -> None:
    machine = BrokerInMemory()
    async with machine.running(**TWO_LISTENERS, max_connection_creation_rate="2") as broker:
        rates = ConnectionRates(broker)
        verdicts = [rates.judge(CLIENT, "10.0.0.1", 0) for _ in range(5)]
        assert verdicts == [OPEN, OPEN, (500.0, None), (1000.0, None), (1500.0, None)]
        machine.clock.time_ms += 1500
        assert rates.judge(CLIENT, "10.0.0.1", 0) == (500.0, None)
        machine.clock.time_ms += 100_000
        assert [rates.judge(CLIENT, "10.0.0.1", 0).delay_ms for _ in range(3)] == [0.0, 0.0, 500.0]


async def test_the_listener_of_brokers_counts_only_its_own_rate() -> None:
    settings = {**TWO_LISTENERS, "max_connection_creation_rate": "1"}
    async with BrokerInMemory().running(**settings) as broker:
        rates = ConnectionRates(broker)
        assert not rates.is_limited(BROKER)
        assert [rates.judge(BROKER, "10.0.0.1", 0) for _ in range(3)] == [OPEN] * 3
        assert [rates.judge(CLIENT, "10.0.0.1", 0).delay_ms for _ in range(2)] == [0.0, 1000.0]


async def test_a_listener_has_a_rate_of_its_own() -> None:
    settings = {**TWO_LISTENERS, "listener_name_client_max_connection_creation_rate": "1"}
    async with BrokerInMemory().running(**settings) as broker:
        rates = ConnectionRates(broker)
        assert rates.is_limited(CLIENT)
        assert not rates.is_limited(BROKER)
        assert [rates.judge(CLIENT, "10.0.0.1", 0).delay_ms for _ in range(2)] == [0.0, 1000.0]


async def test_too_many_that_wait_are_closed_and_not_counted() -> None:
    machine = BrokerInMemory()
    settings = {**TWO_LISTENERS, "max_connection_creation_rate": "1", "socket_listen_backlog_size": "7"}
    async with machine.running(**settings) as broker:
        rates = ConnectionRates(broker)
        assert rates.judge(CLIENT, "10.0.0.1", 7) == OPEN
        refused = rates.judge(CLIENT, "10.0.0.1", 7)
        assert refused == (0.0, "too many connections to CLIENT wait for their turn")
        delays = [rates.judge(CLIENT, "10.0.0.1", 0).delay_ms for _ in range(30)]
        assert max(delays) == CONNECTION_WAIT_MS_MAX
        assert delays[-1] == 0.0
        machine.clock.time_ms += 11_000
        assert rates.judge(CLIENT, "10.0.0.1", 0) == OPEN


async def test_an_address_over_its_rate_is_closed_after_a_pause() -> None:
    machine = BrokerInMemory()
    async with machine.running(**TWO_LISTENERS) as broker:
        rates = ConnectionRates(broker)
        await limit(broker, "10.0.0.1", 2)
        await limit(broker, DEFAULT, 1)
        first = [rates.judge(CLIENT, "10.0.0.1", 0) for _ in range(4)]
        reason = "its address may open 2 connections per second"
        assert first == [OPEN, OPEN, (500.0, reason), (500.0, reason)]  # those that are closed do not count
        other = [rates.judge(CLIENT, "::ffff:10.0.0.2", 0) for _ in range(2)]
        assert other == [OPEN, (1000.0, "its address may open 1 connections per second")]
        machine.clock.time_ms += 500
        assert rates.judge(CLIENT, "10.0.0.1", 0) == OPEN


async def test_connections_that_wait_to_be_closed_take_no_place_of_others() -> None:
    """A flood from an address over its rate filled the places, and every other client was refused."""
    settings = {**TWO_LISTENERS, "max_connection_creation_rate": "1", "socket_listen_backlog_size": "7"}
    async with BrokerInMemory().running(**settings) as broker:
        rates = ConnectionRates(broker)
        await limit(broker, "10.0.0.1", 1)
        reason = "its address may open 1 connections per second"
        assert rates.judge(CLIENT, "10.0.0.1", 0, 7) == OPEN
        assert rates.judge(CLIENT, "10.0.0.1", 7, 6) == (1000.0, reason)
        assert rates.judge(CLIENT, "10.0.0.1", 0, 7) == (0.0, reason), "it is closed at once"
        assert rates.judge(CLIENT, "10.0.0.2", 6, 7) == (1000.0, None)


async def test_a_connection_that_leaves_before_its_turn_does_not_count() -> None:
    async with BrokerInMemory().running(**TWO_LISTENERS, max_connection_creation_rate="2") as broker:
        rates = ConnectionRates(broker)
        assert [rates.judge(CLIENT, "10.0.0.1", 0).delay_ms for _ in range(4)] == [0.0, 0.0, 500.0, 1000.0]
        rates.give_back(CLIENT)
        assert rates.judge(CLIENT, "10.0.0.1", 0) == (1000.0, None)


async def test_rate_zero_lets_no_client_in() -> None:
    async with BrokerInMemory().running(**TWO_LISTENERS, max_connection_creation_rate="0") as broker:
        assert ConnectionRates(broker).judge(CLIENT, "10.0.0.1", 0).refusal is not None


async def test_addresses_with_another_number_of_connections() -> None:
    overrides = "10.0.0.1:1,::1:5"
    async with BrokerInMemory().running(
        max_connections_per_ip="3", max_connections_per_ip_overrides=overrides
    ) as broker:
        count_max = connections_per_ip(broker.config)
        found = [count_max(host) for host in ("10.0.0.1", "::ffff:10.0.0.1", "0:0:0:0:0:0:0:1", "10.0.0.2")]
        assert found == [1, 1, 5, 3]


# --- real sockets


def answers(peer: socket.socket) -> bool:
    try:
        peer.sendall(api_versions())
        receive_frame(peer)
    except (ConnectionError, AssertionError):
        return False
    return True


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_that_waited_is_served(tmp_path: Path, loop: str) -> None:
    with Live(tmp_path, {"max.connection.creation.rate": "5"}, loop=loop, clock=ManualClock()) as live:
        peers = [live.socket() for _ in range(12)]
        assert all(map(answers, peers))
        delayed = live.server.listeners.waiting.rates._delayed
        assert delayed is not None
        assert [sample.value for sample in delayed.samples()] == [7]
        assert len(live.server.listeners.waiting.places) == 0
        for peer in peers:
            peer.close()


@pytest.mark.parametrize("loop", LOOPS)
def test_an_address_over_its_rate_is_closed(tmp_path: Path, loop: str, caplog: pytest.LogCaptureFixture) -> None:
    with Live(tmp_path, {}, loop=loop, clock=ManualClock()) as live:
        live.wait_for(limit(live.server.broker, "127.0.0.1", 2))
        peers = [live.socket() for _ in range(8)]
        assert [answers(peer) for peer in peers] == [True] * 2 + [False] * 6
        for peer in peers:
            peer.close()
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "refused a connection from 127.0.0.1: its address may open 2 connections per second" in lines


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_that_cannot_wait_for_want_of_descriptors_is_closed(
    tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The error was left to the event loop, and the connection was never served and never closed."""

    def fail(descriptor: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with Live(tmp_path, {"max.connection.creation.rate": "1"}, loop=loop, clock=ManualClock()) as live:
        first = live.socket()
        assert answers(first)
        with monkeypatch.context() as shortage:
            shortage.setattr(os, "dup", fail)
            with live.socket() as unlucky:
                assert is_closed(unlucky)
        with live.socket() as later:
            assert answers(later), "it waits for its turn and gets it"
        first.close()
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == ["refused a connection from 127.0.0.1: it cannot wait for its turn: Too many open files"]


def test_connections_that_wait_end_with_the_broker(tmp_path: Path) -> None:
    with Live(tmp_path, {"max.connection.creation.rate": "1"}, clock=ManualClock()) as live:
        peers = [live.socket() for _ in range(4)]
        wait_until(lambda: len(live.server.listeners.waiting.places) > 0, "some wait")
    for peer in peers:
        assert is_closed(peer)
        peer.close()
