"""One connection, over real sockets and on both event loops: order, deadlines, bounds and ends."""

import asyncio
import logging
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.clients.ask.asker import produce_fields
from tests.clients.ask.fetch import fetch_fields
from tests.clients.raw import Wire, batch
from tests.faults.live import (
    LOOPS,
    TIMEOUT_S,
    Live,
    api_versions,
    framed,
    is_closed,
    receive_exactly,
    receive_frame,
    request_header,
    wait_until,
)
from tests.logged import own_records

from tailrace.base.limits import FULL_MEMORY_READ_BYTES, MIB, READ_AHEAD_FRAMES_MAX
from tailrace.records.compression import Compression, compress
from tailrace.server import listener

REQUEST_BYTES_MAX = 2 * MIB
QUEUED_BYTES_MAX = 4 * MIB
IDLE_S = 600
STALL_S = 30

OPTIONS = {
    "socket.request.max.bytes": str(REQUEST_BYTES_MAX),
    "queued.max.request.bytes": str(QUEUED_BYTES_MAX),
    "socket.listen.backlog.size": "500",
}


class Gate:
    """Holds every request of one API back until it is opened, in the server's loop."""

    def __init__(self, key: int) -> None:
        self.waiting = 0
        self._key = key
        self._is_open = asyncio.Event()

    async def intercept(self, context: Any, request: Any) -> None:
        if context.header.api_key == self._key:
            self.waiting += 1
            await self._is_open.wait()

    def open(self) -> None:
        self._is_open.set()


@pytest.fixture(params=LOOPS)
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    with Live(tmp_path, OPTIONS, loop=request.param) as running:
        yield running


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def correlation_id(frame: bytes) -> int:
    (found,) = struct.unpack_from(">i", frame)
    return int(found)


def fetch_frame(wire: Wire, topic: str, **options: Any) -> bytes:
    return framed(wire.frame("Fetch", 11, fetch_fields(topic, 0, **options)))


def reset(peer: socket.socket) -> None:
    """Close without saying goodbye."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def wait_until_serving(live: Live) -> None:
    wait_until(lambda: any(found._is_serving for found in live.connections()), "a request is being served")


# --- order


def test_thousands_of_requests_sent_ahead_are_answered_in_order(live: Live) -> None:
    count = 5000
    with live.socket() as peer:
        sender = threading.Thread(target=peer.sendall, args=(b"".join(map(api_versions, range(count))),))
        sender.start()
        assert [correlation_id(receive_frame(peer)) for _ in range(count)] == list(range(count))
        sender.join()
    live.wait_until_gone()


@pytest.mark.parametrize("loop", LOOPS)
def test_a_peer_that_sends_ahead_takes_turns_with_the_others(tmp_path: Path, loop: str) -> None:
    """Served in one go, what one peer has sent ahead would delay everybody until it is done."""
    served: list[str] = []
    both_are_there = asyncio.Event()

    async def note(context: Any, request: Any) -> None:
        served.append(context.header.client_id or "greedy")
        await both_are_there.wait()

    with Live(tmp_path, OPTIONS, loop=loop, intercept=note) as live, live.socket() as greedy, live.socket() as modest:
        greedy.sendall(b"".join(map(api_versions, range(2000))))
        wait_until(lambda: served == ["greedy"] and len(live.connections()) == 2, "the first request is served")
        modest.sendall(framed(request_header(18, 0, client_id=b"modest")) * 5)
        wait_until(lambda: served == ["greedy", "modest"], "and one of the other")
        live.call(both_are_there.set)
        for _ in range(5):
            receive_frame(modest)
        last = len(served) - served[::-1].index("modest")
        assert last < 100, "five requests of the one are served among as many of the other"


def test_a_request_may_arrive_in_two_pieces_cut_anywhere(live: Live) -> None:
    with live.socket() as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        whole = api_versions(1)
        for cut in range(1, len(whole)):
            peer.sendall(whole[:cut])
            wait_until(lambda: any(found._inbox.in_frame for found in live.connections()), "the first piece is there")
            peer.sendall(whole[cut:])
            assert correlation_id(receive_frame(peer)) == 1, f"cut after {cut} bytes"


def test_a_long_poll_holds_back_the_replies_behind_it(live: Live) -> None:
    topic = live.asker.topic()
    with live.wire() as wire:
        wire.send(fetch_frame(wire, topic, max_wait_ms=2**31 - 1) + api_versions(77))
        wait_until_serving(live)
        live.assert_serves(topic)
        assert correlation_id(wire.receive()) == 1  # type: ignore[arg-type]
        assert correlation_id(wire.receive()) == 77  # type: ignore[arg-type]
    live.wait_until_gone()


def test_a_good_request_before_a_bad_length_is_answered(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    with live.socket() as peer:
        peer.sendall(api_versions(1) + api_versions(2) + struct.pack(">i", -5) + b"rest")
        assert [correlation_id(receive_frame(peer)) for _ in range(2)] == [1, 2]
        assert is_closed(peer)
    live.wait_until_gone()
    (line,) = warnings(caplog)
    assert "closed the connection from 127.0.0.1:" in line
    assert "a frame of -5 bytes" in line


def test_a_flood_of_bad_connections_writes_only_so_many_lines(
    live: Live, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = live.server.listeners._warnings
    monkeypatch.setattr(log, "_lines_max", 3)
    for _ in range(8):
        with live.socket() as peer:
            peer.sendall(struct.pack(">i", -5))
            assert is_closed(peer)
    live.wait_until_gone()
    assert len([line for line in warnings(caplog) if "a frame of -5 bytes" in line]) == 3
    monkeypatch.setattr(log, "_window_start_ms", 0)
    with live.socket() as peer:
        peer.sendall(struct.pack(">i", -5))
        assert is_closed(peer)
    assert "5 more lines about connections are not logged" in warnings(caplog)


# --- what the peer sent before it ended


def test_replies_are_sent_to_a_peer_that_has_finished_sending(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    with live.socket() as peer:
        peer.sendall(b"".join(map(api_versions, range(100))))
        peer.shutdown(socket.SHUT_WR)
        assert [correlation_id(receive_frame(peer)) for _ in range(100)] == list(range(100))
        assert peer.recv(1) == b""
    live.wait_until_gone()
    assert warnings(caplog) == []


def test_records_without_acks_are_stored_though_the_producer_closes_after_its_last_send(live: Live) -> None:
    """Kafka stores them; a server that drops its queue when the peer closes loses them silently."""
    topic = live.asker.topic()
    with live.wire() as wire:
        frames = [
            wire.frame("Produce", 8, produce_fields(topic, batch([b"%d" % number]), 0, 0)) for number in range(40)
        ]
        wire.send(b"".join(map(framed, frames)))
    wait_until(lambda: len(live.asker.stored(topic)) == 40, "all are stored")
    live.wait_until_gone()


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_long_poll_ends_when_its_peer_is_gone(live: Live, end: str) -> None:
    topic = live.asker.topic()
    wire = live.wire()
    wire.send(fetch_frame(wire, topic, max_wait_ms=2**31 - 1))
    wait_until_serving(live)
    assert live.in_flight_bytes > 0
    reset(wire._socket) if end == "reset" else wire._socket.close()
    live.wait_until_gone()
    partition = live.server.broker.replicas.get(topic, 0)
    wait_until(lambda: not partition.waiters.readers, "nobody waits at the partition")


def test_a_long_poll_that_begins_after_its_peer_has_finished_does_not_wait(live: Live) -> None:
    topic = live.asker.topic()
    with live.wire() as wire:
        wire.send(api_versions(1) + fetch_frame(wire, topic, max_wait_ms=2**31 - 1))
        wire._socket.shutdown(socket.SHUT_WR)
        assert correlation_id(wire.receive()) == 1  # type: ignore[arg-type]
        assert not isinstance(wire.receive(), str)
    live.wait_until_gone()


def test_a_peer_that_is_gone_in_the_middle_of_a_frame(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    for end in (socket.socket.close, reset):
        peer = live.socket()
        peer.sendall(struct.pack(">i", MIB) + bytes(300_000))
        wait_until(lambda: live.in_flight_bytes >= 300_000, "the frame is counted")
        end(peer)
        live.wait_until_gone()
    assert warnings(caplog) == []


def test_a_produce_in_a_worker_thread_is_finished_though_its_peer_is_gone(live: Live) -> None:
    """Its bytes are in use until then, so they stay counted until then."""
    topic = live.asker.topic()
    records = batch([bytes(50) + number.to_bytes(4) for number in range(20_000)], key=None)
    blocked = threading.Event()
    for _ in range(4):
        live.server.broker.worker.submit(blocked.wait, TIMEOUT_S)
    wire = live.wire()
    body = records[61:]
    compressed = batch(
        [b"x"] * 20_000, records=body, compress=lambda data: compress(Compression.SNAPPY, data), attributes=2
    )
    assert len(compressed) > 16 * 1024
    wire.send_frame(wire.frame("Produce", 8, produce_fields(topic, compressed, -1, 0)))
    wait_until_serving(live)
    reset(wire._socket)
    wait_until(lambda: live.count() == 0, "the connection is gone")
    assert live.in_flight_bytes >= len(compressed)
    blocked.set()
    live.wait_until_gone()
    assert [count for *_, count in live.asker.stored(topic)] == [20_000]


# --- deadlines


def test_a_frame_must_arrive_within_its_deadline(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    with live.socket() as slow, live.socket() as honest:
        slow.sendall(struct.pack(">i", MIB) + b"x")
        honest.sendall(api_versions())
        receive_frame(honest)
        wait_until(lambda: live.in_flight_bytes > 0, "the frame has begun")
        live.sweep_later(STALL_S - 5)
        slow.sendall(b"one more byte buys no time")
        wait_until(lambda: sum(c._frame_began_at is not None for c in live.connections()) == 1, "it goes on")
        live.sweep_later(STALL_S + 1)
        assert is_closed(slow)
        honest.sendall(api_versions())
        receive_frame(honest)
    live.wait_until_gone()
    (line,) = warnings(caplog)
    assert "dropped the connection from 127.0.0.1:" in line
    assert "arriving for more than 30 s" in line


def test_two_bytes_of_a_length_are_a_frame_that_has_begun(live: Live) -> None:
    with live.socket() as peer:
        peer.sendall(b"\x00\x00")
        wait_until(lambda: live.count() == 1 and live.connections()[0]._frame_began_at is not None, "it has begun")
        live.sweep_later(STALL_S + 1)
        assert is_closed(peer)


def test_the_deadline_does_not_run_while_the_server_does_not_read(tmp_path: Path) -> None:
    """A frame behind a slow request waits because of the server, which must not blame the peer for it."""
    gate = Gate(key=18)
    with Live(tmp_path, OPTIONS, intercept=gate.intercept) as live, live.socket() as peer:
        sender = threading.Thread(target=peer.sendall, args=(api_versions(1) + framed(bytes(2 * MIB - 100)),))
        sender.start()
        wait_until(lambda: gate.waiting == 1 and live.in_flight_bytes > 64 * 1024, "the large frame has begun")
        wait_until(lambda: live.connections()[0]._frame_began_at is None, "reading has stopped")
        assert live.in_flight_bytes <= MIB + 1000
        live.sweep_later(STALL_S + 1)
        live.call(gate.open)
        assert correlation_id(receive_frame(peer)) == 1
        sender.join()
        assert is_closed(peer), "a frame of zeros is no request"
        live.wait_until_gone()


def test_an_idle_connection_is_closed_without_a_word(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    with live.socket() as silent, live.socket() as served:
        served.sendall(api_versions())
        receive_frame(served)
        wait_until(lambda: live.count() == 2, "both are connected")
        live.sweep_later(IDLE_S - 5)
        assert live.count() == 2
        live.sweep_later(IDLE_S + 1)
        assert is_closed(silent)
        assert is_closed(served)
    live.wait_until_gone()
    assert warnings(caplog) == []


def test_a_long_poll_is_not_idle(live: Live) -> None:
    topic = live.asker.topic()
    with live.wire() as wire:
        wire.send(fetch_frame(wire, topic, max_wait_ms=2**31 - 1))
        wait_until_serving(live)
        live.sweep_later(IDLE_S + 1)
        live.assert_serves(topic)
        assert not isinstance(wire.receive(), str)


def test_a_broken_connection_whose_peer_reads_nothing_does_not_linger(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    topic = _topic_of_batches(live, 3)
    with _stalled_reader(live, topic) as wire:
        wire.send(struct.pack(">i", -1))
        wait_until(lambda: live.connections()[0]._ending is not None, "the bad length is seen")
        live.sweep_later(STALL_S - 5)
        assert live.count() == 1, "its reply may still be read"
        live.sweep_later(STALL_S + 1)
        live.wait_until_gone()
    (line,) = warnings(caplog)
    assert "a frame of -1 bytes" in line


def test_a_closed_connection_whose_peer_reads_nothing_does_not_linger(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    topic = _topic_of_batches(live, 3)
    with _stalled_reader(live, topic):
        live.call(live.connections()[0].close, "a good reason")
        live.sweep_later(STALL_S - 5)
        assert live.count() == 1, "its reply may still be read"
        live.sweep_later(STALL_S + 1)
        live.wait_until_gone()
    (line,) = warnings(caplog)
    assert "a good reason" in line


# --- peers that do not read


def _topic_of_batches(live: Live, count: int) -> str:
    topic = live.asker.topic()
    for _ in range(count):
        assert live.asker.produce(topic, batch([bytes(1_000_000)]))["error_code"] == 0
    return topic


def _stalled_reader(live: Live, topic: str, max_bytes: int = 64 * MIB) -> Wire:
    """A peer that asks for all of a topic and reads none of it."""
    wire = live.wire()
    wire._socket.close()
    wire._socket = live.socket(receive_bytes=4096)
    wire.send(fetch_frame(wire, topic, max_bytes=max_bytes, partition_max_bytes=max_bytes))
    wait_until(lambda: any(found._stalled_since is not None for found in live.connections()), "its reply is stuck")
    return wire


def test_a_peer_that_never_reads_is_not_read_and_in_the_end_dropped(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    topic = _topic_of_batches(live, 3)
    with _stalled_reader(live, topic) as wire:
        unsent_bytes = live.server.listeners.backlog.size_bytes
        assert 0 < unsent_bytes < 4 * MIB
        wire._socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                wire._socket.send(api_versions() * 1000)
        (stalled,) = live.connections()
        wait_until(lambda: not stalled._transport.is_reading(), "it is not read any more")
        assert len(stalled._inbox) > READ_AHEAD_FRAMES_MAX
        assert live.in_flight_bytes < 2 * MIB
        assert live.server.listeners.backlog.size_bytes == unsent_bytes, "nothing was added to its replies"
        live.assert_serves()
        live.sweep_later(IDLE_S + 1)
        live.wait_until_gone()
    (line,) = warnings(caplog)
    assert "the client does not read its replies" in line


def test_a_slow_reader_is_kept_as_long_as_it_reads_something(live: Live) -> None:
    topic = _topic_of_batches(live, 3)
    with _stalled_reader(live, topic) as wire:
        (stalled,) = live.connections()
        before = live.server.listeners.backlog.size_bytes
        live.call(stalled._stalled_at, 1.0)
        receive_exactly(wire._socket, 600_000)
        wait_until(lambda: stalled._transport.get_write_buffer_size() < before, "more could be sent")
        live.sweep_later(IDLE_S + 1)
        assert live.count() == 1, "it made progress since the last look"
        assert live.server.listeners.backlog.size_bytes < before
        live.sweep_later(2 * IDLE_S + 10)
        live.wait_until_gone()


def test_a_peer_that_is_gone_while_its_reply_is_stuck(live: Live) -> None:
    topic = _topic_of_batches(live, 3)
    wire = _stalled_reader(live, topic)
    wire.send(api_versions() * 10)
    reset(wire._socket)
    live.wait_until_gone()


def test_replies_become_small_when_unread_ones_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "REPLY_BACKLOG_BYTES_MAX", MIB)
    with Live(tmp_path, OPTIONS) as live:
        topic = _topic_of_batches(live, 4)
        with live.wire() as wire:
            whole = wire.ask("Fetch", 11, **fetch_fields(topic, 0, max_bytes=64 * MIB, partition_max_bytes=64 * MIB))
            assert len(_records(whole)) < 2 * MIB, "one reply fills no more than there is room for"
        with _stalled_reader(live, topic):
            with live.wire() as wire:
                wire.send(fetch_frame(wire, topic, max_bytes=64 * MIB, partition_max_bytes=64 * MIB))
                found = _records(wire.answer("Fetch", 11))
            (length,) = struct.unpack_from(">i", found, 8)
            assert len(found) == length + 12, "one whole batch: less would keep a consumer from going on"


def _records(answer: Any) -> bytes:
    return answer["responses"][0]["partitions"][0]["records"]  # type: ignore[no-any-return]


# --- memory


def test_half_sent_frames_take_no_more_memory_than_allowed_and_small_requests_are_answered(live: Live) -> None:
    count = 40
    half = struct.pack(">i", REQUEST_BYTES_MAX) + bytes(REQUEST_BYTES_MAX // 2)
    budget = live.server.listeners.budget
    peaks = [0]

    def watch(size_bytes: int, take: Any = budget.take) -> None:
        take(size_bytes)
        peaks[0] = max(peaks[0], budget.in_flight_bytes)

    live.call(setattr, budget, "take", watch)
    peers = [live.socket() for _ in range(count)]
    for peer in peers:
        peer.setblocking(False)
    _send_as_much_as_goes(peers, half, lambda: peaks[0] >= QUEUED_BYTES_MAX and budget.waiting_count > 0)
    bound = QUEUED_BYTES_MAX + REQUEST_BYTES_MAX + count * 4 * FULL_MEMORY_READ_BYTES + 4 * 64 * 1024
    assert QUEUED_BYTES_MAX <= peaks[0] <= bound
    live.assert_serves()
    for peer in peers:
        peer.close()
    live.wait_until_gone()


def _send_as_much_as_goes(peers: list[socket.socket], data: bytes, is_full: Callable[[], bool]) -> None:
    """Send until the broker has no memory left, and then for as long as it takes more than it should."""
    left = {peer: memoryview(data) for peer in peers}
    idle_rounds, deadline_s = 0, time.monotonic() + TIMEOUT_S
    while left and (idle_rounds < 50 or not is_full()):
        assert time.monotonic() < deadline_s, "frames never came to wait for memory"
        idle_rounds += 1
        for peer, rest in list(left.items()):
            try:
                sent = peer.send(rest[:65536])
            except BlockingIOError:
                continue
            idle_rounds = 0
            left[peer] = rest[sent:]
            if not left[peer]:
                del left[peer]
        threading.Event().wait(0.002)


def test_frames_that_do_not_fit_into_memory_together_are_all_served(live: Live) -> None:
    """Each of them half there and waiting for the others would be the end of it."""
    topic = live.asker.topic()
    records = batch([bytes(1_000_000)])
    outcomes: list[int] = []

    def produce() -> None:
        outcomes.extend(live.asker.produce(topic, records)["error_code"] for _ in range(3))

    producers = [threading.Thread(target=produce) for _ in range(16)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join(2 * TIMEOUT_S)
    assert outcomes == [0] * 48
    live.wait_until_gone()


def test_a_frame_that_waits_for_memory_goes_on_when_the_others_are_gone(live: Live) -> None:
    topic = live.asker.topic()
    half = struct.pack(">i", REQUEST_BYTES_MAX) + bytes(REQUEST_BYTES_MAX // 2)
    attackers = [live.socket() for _ in range(10)]
    for attacker in attackers:
        attacker.setblocking(False)
    _send_as_much_as_goes(attackers, half, lambda: live.server.listeners.budget.waiting_count > 0)
    waiting = live.server.listeners.budget.waiting_count
    outcomes: list[int] = []
    honest = threading.Thread(
        target=lambda: outcomes.append(live.asker.produce(topic, batch([bytes(900_000)]))["error_code"])
    )
    honest.start()
    wait_until(lambda: live.server.listeners.budget.waiting_count > waiting, "the honest frame waits too")
    for attacker in attackers:
        attacker.close()
    honest.join(TIMEOUT_S)
    assert outcomes == [0]
    live.wait_until_gone()


def test_an_idle_connection_keeps_neither_its_last_request_nor_its_last_reply(live: Live) -> None:
    """A local variable in the serving loop would keep both alive, uncounted, until the next request."""
    seen: list[Any] = []
    serve = live.server.listeners._serve

    async def remember(connection: Any, frame: bytearray) -> Any:
        reply = await serve(connection, frame)
        seen.extend((frame, reply))
        return reply

    live.server.listeners._serve = remember
    with live.socket() as peer:
        peer.sendall(api_versions(1))
        receive_frame(peer)
        wait_until(lambda: live.call(lambda: live.connections_now()[0].is_idle), "it is idle again")
        # The list, the argument of getrefcount, and the local name of the loop variable.
        assert [sys.getrefcount(item) for item in seen] == [3, 3]


# --- oddities


def test_an_oddity_is_noted_once_a_connection(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    with live.socket() as peer:
        for number in range(20):
            peer.sendall(framed(request_header(18, 0, number) + bytes(number + 1)))
            assert correlation_id(receive_frame(peer)) == number
    live.wait_until_gone()
    (line,) = warnings(caplog)
    assert "API_VERSIONS v0 with bytes after its end" in line


def test_a_bug_in_serving_ends_that_connection_only(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(connection: Any, frame: bytearray) -> None:
        raise ZeroDivisionError

    serve, live.server.listeners._serve = live.server.listeners._serve, fail
    with live.socket() as unlucky:
        unlucky.sendall(api_versions())
        assert is_closed(unlucky)
    live.server.listeners._serve = serve
    live.assert_serves()
    live.wait_until_gone()
    assert [record.getMessage().startswith("connection 127.0.0.1:") for record in own_records(caplog)] == [True]


def test_the_server_stops_though_peers_wait_stall_and_send(tmp_path: Path) -> None:
    for loop in LOOPS:
        with Live(tmp_path / loop, OPTIONS, loop=loop) as live:
            topic = _topic_of_batches(live, 3)
            waiting, sending = live.wire(), live.socket()
            waiting.send(fetch_frame(waiting, live.asker.topic(), max_wait_ms=2**31 - 1))
            sending.sendall(struct.pack(">i", MIB) + bytes(100_000))
            stalled = _stalled_reader(live, topic)
            live.stop()
        assert is_closed(sending)
        assert isinstance(waiting.receive(), str)
        for peer in (waiting._socket, sending, stalled._socket):
            peer.close()
