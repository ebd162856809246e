"""A connection that is paused by a quota: it is neither read nor served, and no other connection notices."""

import asyncio
import socket
import struct
import threading
from pathlib import Path

import pytest
from tests.faults.live import LOOPS, TIMEOUT_S, Live, api_versions, receive_frame, wait_until
from tests.unit.sample import ManualClock, make_batch
from tests.unit.server.handlers.peer import produce_request

from tailrace.machines.controller.record import CLUSTER_DEFAULT, ConfigKind
from tailrace.machines.quota.entity import QuotaEntity
from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import ProduceResponse
from tailrace.server.context import RequestContext

SLOW = QuotaEntity(client_id="slow")
PIPELINED_COUNT = 200


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def set_rate(live: Live, rate: int | None) -> None:
    """Limit the bytes of the client "slow"."""
    kind, name = SLOW.place
    values = {} if rate is None else {"producer_byte_rate": str(rate)}
    controller = live.server.broker.controller
    live.wait_for(controller.write_config(kind, name, lambda _: values, validate_only=False))


def produce_frame(topic: str, size_bytes: int, client_id: str = "slow") -> bytes:
    request = produce_request({(topic, 0): make_batch(b"x" * size_bytes)})
    return b"".join(encode_request(1, client_id, request, 12))


def throttle_ms(frame: bytes) -> int:
    _, response = decode_response(ProduceResponse, frame, 12)
    assert response.responses[0].partition_responses[0].error_code == 0
    return response.throttle_time_ms


def is_paused(live: Live) -> bool:
    return len(live.server.listeners.connections) > 0 and any(connection.is_paused for connection in live.connections())


def test_the_reply_comes_at_once_and_the_next_request_waits(tmp_path: Path, loop: str) -> None:
    with Live(tmp_path, loop=loop, clock=ManualClock()) as live, live.socket() as slow, live.socket() as quick:
        topic = live.asker.topic()
        set_rate(live, 1)
        slow.sendall(produce_frame(topic, 5_000))
        assert throttle_ms(receive_frame(slow)) > 3_600_000
        slow.sendall(api_versions())
        for _ in range(20):
            quick.sendall(produce_frame(topic, 5_000, "quick"))
            assert throttle_ms(receive_frame(quick)) == 0
        slow.settimeout(0.05)
        with pytest.raises(TimeoutError):
            slow.recv(1)
        slow.settimeout(60)
        set_rate(live, None)
        assert receive_frame(slow)


def test_paused_clients_hold_no_memory_that_others_need(tmp_path: Path, loop: str) -> None:
    """What a client sends ahead stays in the kernel, from its first pause on."""
    with Live(tmp_path, loop=loop, clock=ManualClock()) as live, live.socket() as slow:
        topic = live.asker.topic()
        set_rate(live, 1_000)
        slow.sendall(produce_frame(topic, 5_000))
        assert throttle_ms(receive_frame(slow)) > 0
        frame = produce_frame(topic, 100_000)
        sender = threading.Thread(target=_send, args=(slow, frame * PIPELINED_COUNT), daemon=True)
        sender.start()
        wait_until(lambda: is_paused(live), "it is paused")
        assert live.in_flight_bytes < len(frame)
        set_rate(live, None)
        for _ in range(PIPELINED_COUNT):
            assert throttle_ms(receive_frame(slow)) == 0
        sender.join()


def _send(peer: socket.socket, data: bytes) -> None:
    peer.sendall(data)


def test_a_client_that_stays_within_its_quota_may_send_ahead_again(tmp_path: Path, loop: str) -> None:
    """From its first pause on, a connection was read only between two requests, for as long as it was open."""
    held, opened = threading.Event(), asyncio.Event()

    async def hold(context: RequestContext, request: Message) -> None:
        if isinstance(request, MetadataRequest) and context.header.client_id == "slow":
            held.set()
            await opened.wait()

    with Live(tmp_path, loop=loop, clock=ManualClock(), intercept=hold) as live, live.socket() as slow:
        topic = pause(live, slow)
        (connection,) = [other for other in live.connections() if other.is_paused]
        set_rate(live, None)
        slow.sendall(produce_frame(topic, 5_000))
        assert throttle_ms(receive_frame(slow)) == 0
        slow.sendall(b"".join(encode_request(2, "slow", MetadataRequest(topics=[]), 4)))
        assert held.wait(TIMEOUT_S)
        slow.sendall(api_versions())
        wait_until(lambda: len(connection._inbox) == 1, "what it sends ahead is read")
        slow.sendall(api_versions())
        wait_until(lambda: len(connection._inbox) == 2, "and read on")
        live.call(opened.set)
        for _ in range(3):
            assert receive_frame(slow)


@pytest.mark.parametrize("resets", [False, True], ids=["close", "reset"])
def test_a_client_that_leaves_while_it_is_paused_is_noticed(tmp_path: Path, loop: str, resets: bool) -> None:
    """A paused connection is not read, and so it was kept until its pause was over, which may take hours."""
    with Live(tmp_path, loop=loop, clock=ManualClock()) as live, live.socket() as slow:
        pause(live, slow)
        live.sweep_later(0)
        assert is_paused(live), "its client is there"
        if resets:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        slow.close()

        def is_swept() -> bool:
            live.sweep_later(0)
            return live.count() == 0

        wait_until(is_swept, "the connection is dropped")
        live.wait_until_gone()


def test_what_a_paused_client_sent_before_it_left_is_served(tmp_path: Path, loop: str) -> None:
    with Live(tmp_path, loop=loop, clock=ManualClock()) as live, live.socket() as slow:
        topic = pause(live, slow)
        slow.sendall(produce_frame(topic, 10))
        slow.shutdown(socket.SHUT_WR)
        live.sweep_later(0)
        set_rate(live, None)
        assert throttle_ms(receive_frame(slow)) == 0
        assert slow.recv(1) == b""


def test_a_paused_connection_is_closed_when_it_has_been_idle_for_too_long(tmp_path: Path, loop: str) -> None:
    """As in Kafka (KIP-219): this bounds the time for which the connection of a client that has left is kept."""
    with Live(tmp_path, loop=loop, clock=ManualClock()) as live, live.socket() as slow:
        pause(live, slow)
        live.sweep_later(500)
        assert is_paused(live)
        live.sweep_later(700)
        assert slow.recv(1) == b""
        live.wait_until_gone()


def test_a_paused_connection_outlives_no_idle_one(tmp_path: Path, loop: str) -> None:
    """Paused connections passed for busy: a client over its quota could push out all the others."""
    with Live(tmp_path, loop=loop, clock=ManualClock()) as live, live.socket() as slow:
        pause(live, slow)
        wait_until(lambda: live.count() == 1, "it is alone")
        two = {"max.connections": "2"}
        controller = live.server.broker.controller
        live.wait_for(controller.write_config(ConfigKind.BROKER, CLUSTER_DEFAULT, lambda _: two, validate_only=False))
        (paused,) = live.connections()
        wait_until(lambda: live.now() > paused.active_at, "the loop's clock, which counts milliseconds, has moved")
        with live.socket() as first, live.socket() as second:
            for peer in (first, second):
                peer.sendall(api_versions())
                assert receive_frame(peer)
            assert slow.recv(1) == b""
            first.sendall(api_versions())
            assert receive_frame(first)


def pause(live: Live, slow: socket.socket) -> str:
    """Have a client paused for hours, and return the topic to which it has written."""
    topic = live.asker.topic()
    set_rate(live, 1)
    slow.sendall(produce_frame(topic, 5_000))
    receive_frame(slow)
    wait_until(lambda: is_paused(live), "it is paused")
    return topic


def test_a_broker_stops_while_connections_are_paused(tmp_path: Path, loop: str) -> None:
    with Live(tmp_path, loop=loop, clock=ManualClock()) as live, live.socket() as slow:
        pause(live, slow)
        live.stop()
        assert slow.recv(1) == b""


def test_a_connection_that_is_dropped_ends_its_pause(tmp_path: Path, loop: str) -> None:
    with Live(tmp_path, loop=loop, clock=ManualClock()) as live, live.socket() as slow:
        pause(live, slow)
        (connection,) = [other for other in live.connections() if other.is_paused]
        live.call(connection.abort)
        wait_until(lambda: connection._task is not None and connection._task.done(), "its task has ended")
