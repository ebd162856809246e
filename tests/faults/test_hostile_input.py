"""Bytes that no client would send, over a socket to a live broker.

Each gets Kafka's error code or a closed connection, at most one line in the log, and nobody
else notices: another client produces and fetches right after, all memory is given back, and
the data folder holds what was acknowledged and nothing more. What real Kafka answers to these
questions is recorded and compared in `tests/clients`; here it is about the rest of the broker.
"""

from __future__ import annotations

import gzip
import logging
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import lz4.frame
import pytest
import zstandard
from tests.clients.ask.asker import creatable, produce_fields
from tests.clients.raw import CLOSED, batch, legacy_message
from tests.clients.raw import record as raw_record
from tests.faults.live import (
    Live,
    api_versions,
    framed,
    is_closed,
    receive_frame,
    request_header,
    wait_until,
)
from tests.least_peak import least, resident_bytes
from tests.logged import own_records

from tailrace.base.limits import MIB, PARTITIONS_PER_REQUEST_MAX
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.messages.config import DescribeConfigsRequest, DescribeConfigsRequestResource
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

OPENED_BYTES_MAX = 4 * MIB


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("hostile")
    with Live(folder, {"tailrace.decompressed.max.bytes": str(OPENED_BYTES_MAX)}) as running:
        yield running
    _assert_folder_is_tidy(folder)


@pytest.fixture(scope="module")
def topic(live: Live) -> str:
    return live.asker.topic("hostile")


@pytest.fixture(autouse=True)
def nobody_else_notices(live: Live, topic: str, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """After every test: others are served, memory is given back, and no log line is forged."""
    yield
    live.assert_serves(topic if len(live.asker.stored(topic)) < 100 else live.asker.topic())
    live.wait_until_gone()
    assert all(record.getMessage().isprintable() for record in caplog.records)


def _assert_folder_is_tidy(folder: Path) -> None:
    """Nothing stands in or next to the data folder that a topic's name could have put there."""
    names = {path.name for path in folder.iterdir() if path.is_dir()}
    assert "hostile-0" in names
    assert all(name.startswith(("hostile-", "ask-")) for name in names), names
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith("x")] == []


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings but those about rejected batches, of which a broker writes only some each minute.

    Brokers of other tests, which have threads of this process, may log meanwhile.
    """
    own = [record.getMessage() for record in own_records(caplog) if record.levelno >= logging.WARNING]
    return [line for line in own if not line.startswith("rejected ")]


# --- frames and headers: closed, one line


class Broken(NamedTuple):
    """What is sent, and what the log says of it."""

    data: bytes
    reason: str


METADATA = 3
CREATE_TOPICS = 19

BROKEN = {
    "a negative length": Broken(struct.pack(">i", -1), "a frame of -1 bytes"),
    "a length of zero": Broken(struct.pack(">i", 0), "a frame of 0 bytes"),
    "an oversized length": Broken(struct.pack(">i", 100 * MIB + 1) + b"x" * 10, "a frame of 104857601 bytes"),
    "a TLS hello": Broken(
        bytes.fromhex("16030100a5010000a10303") + bytes(64), "the client speaks TLS on a plaintext listener"
    ),
    "HTTP": Broken(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "the client speaks HTTP on a listener"),
    "half a header": Broken(framed(b"\x00\x12"), "shorter than its header"),
    "a client id that is cut short": Broken(framed(struct.pack(">hhih", 18, 0, 1, 99) + b"x"), "client id is longer"),
    "an unknown key": Broken(framed(request_header(999, 0)), "API key 999 is not served"),
    "a negative key": Broken(framed(request_header(-1, 0)), "API key -1 is not served"),
    "LeaderAndIsr": Broken(framed(request_header(4, 0)), "API key 4 is not served"),
    "StopReplica": Broken(framed(request_header(5, 0)), "API key 5 is not served"),
    "UpdateMetadata": Broken(framed(request_header(6, 0)), "API key 6 is not served"),
    "an unknown version": Broken(framed(request_header(METADATA, 99) + b"\x00"), "METADATA v99 is not served"),
    "a negative version": Broken(framed(request_header(METADATA, -1)), "METADATA v-1 is not served"),
    "a version that is too old": Broken(framed(request_header(0, 2)), "PRODUCE v2 is not served"),
    "no body": Broken(framed(request_header(METADATA, 1)), "ends early"),
    "half a body": Broken(framed(request_header(METADATA, 1) + struct.pack(">ih", 1, 5) + b"ab"), "longer than"),
    "an array bomb": Broken(framed(request_header(METADATA, 1) + struct.pack(">i", 2**31 - 1)), "more elements"),
    "a flexible array bomb": Broken(
        framed(request_header(METADATA, 12) + b"\x00" + b"\xff\xff\xff\xff\x07"), "more elements"
    ),
    "a nested array bomb": Broken(
        framed(request_header(CREATE_TOPICS, 4) + struct.pack(">ih1sihi", 1, 1, b"t", 1, 1, 2**31 - 1)),
        "more elements",
    ),
    "half a million topics": Broken(
        framed(request_header(METADATA, 9) + b"\x00" + b"\xa1\xc2\x1e" + b"\x01\x00" * 500_000 + b"\x00\x00\x00\x00"),
        "more elements than one message may have",
    ),
    "half a million unknown tags": Broken(
        framed(request_header(METADATA, 12) + b"\x00\x01\x00\x00" + b"\xa0\xc2\x1e" + b"\x63\x00" * 500_000),
        "more elements than one message may have",
    ),
    "many tags in the header": Broken(
        framed(request_header(METADATA, 12) + b"\xa0\xc2\x1e" + b"\x63\x00" * 500_000), "500000 tagged fields"
    ),
    "a null where none is allowed": Broken(
        framed(request_header(CREATE_TOPICS, 4) + struct.pack(">iib", -1, 1000, 0)), "is null"
    ),
    "a varint that never ends": Broken(
        framed(request_header(METADATA, 12) + b"\x00" + b"\xff" * 12), "longer than five bytes"
    ),
    "a tag that lies": Broken(framed(request_header(METADATA, 12) + b"\x01\x63\x7f"), "tagged field"),
    "a topic that is not UTF-8": Broken(
        framed(request_header(METADATA, 1) + struct.pack(">ih", 1, 3) + b"\xff\xfe\x80"), "not UTF-8"
    ),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN)
def test_what_is_no_request_closes_the_connection(live: Live, case: Broken, caplog: pytest.LogCaptureFixture) -> None:
    with live.socket() as peer:
        peer.sendall(case.data)
        assert is_closed(peer)
    live.wait_until_gone()
    (line,) = lines(caplog)
    assert line.startswith("closed the connection from 127.0.0.1:")
    assert case.reason in line


@pytest.mark.parametrize("split", [1, 3, 7])
def test_the_same_in_small_pieces(live: Live, split: int, caplog: pytest.LogCaptureFixture) -> None:
    for case in (BROKEN["half a body"], BROKEN["an unknown version"], BROKEN["an oversized length"]):
        with live.socket() as peer:
            try:
                for start in range(0, len(case.data), split):
                    peer.sendall(case.data[start : start + split])
            except ConnectionError:
                pass  # the length alone was enough
            assert is_closed(peer)
    live.wait_until_gone()
    assert len(lines(caplog)) == 3


def test_a_body_that_is_cut_short_waits_for_the_rest(live: Live) -> None:
    """Silence is no error yet: the deadline for frames ends it."""
    whole = framed(request_header(METADATA, 1) + struct.pack(">i", 0))
    with live.socket() as peer:
        peer.sendall(whole[:-1])
        wait_until(lambda: live.in_flight_bytes > 0, "the frame has begun")
        peer.sendall(whole[-1:] + api_versions(8))
        receive_frame(peer)
        assert receive_frame(peer)[:4] == struct.pack(">i", 8)


def test_bytes_after_the_body_are_ignored_and_noted_once(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    with live.wire() as wire:
        for extra in (b"a", b"abc", bytes(1000)):
            wire.send_frame(wire.frame("Metadata", 1, {"topics": []}) + extra)
            assert not isinstance(wire.answer("Metadata", 1), str)
    live.wait_until_gone()
    (line,) = lines(caplog)
    assert "METADATA v1 with bytes after its end" in line


# --- versions and names of clients


def test_an_unknown_version_of_api_versions_is_told_what_there_is(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    with live.socket() as peer:
        peer.sendall(framed(request_header(18, 99) + b"\x00"))
        reply = receive_frame(peer)
        correlation_id, error_code, count = struct.unpack_from(">ihi", reply)
        assert (correlation_id, error_code) == (7, ErrorCode.UNSUPPORTED_VERSION)
        assert (18, 0, 4) in [struct.unpack_from(">hhh", reply, 10 + 6 * index) for index in range(count)]
        peer.sendall(api_versions())
        receive_frame(peer)
    assert lines(caplog) == []


@pytest.mark.parametrize("name", ["", " ", "a b", "a\nb", "-a", "a-", "naïve", "a" * 10 + "\x00"])
def test_a_bad_name_of_client_software(live: Live, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with live.wire() as wire:
        for fields in (
            {"client_software_name": name, "client_software_version": "1"},
            {"client_software_name": "good", "client_software_version": name},
        ):
            wire.send_frame(wire.frame("ApiVersions", 3, fields))
            received = wire.receive()
            assert isinstance(received, bytes)
            assert struct.unpack_from(">ih", received)[1] == ErrorCode.INVALID_REQUEST
        assert live.asker.alive(wire) == "open"
    assert lines(caplog) == []


@pytest.mark.parametrize(
    "client_id",
    [b"\xff\xfe\x80", b"a\nfake log line", b"\x1b[31m", b"x" * 32_767, b"\x00", "\u202eevil".encode()],
    ids=["not UTF-8", "newline", "escape", "long", "NUL", "right-to-left"],
)
def test_a_strange_client_id_is_served_and_cannot_forge_a_log_line(
    live: Live, client_id: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with live.socket() as peer:
        peer.sendall(framed(request_header(18, 0, client_id=client_id)))
        receive_frame(peer)
    assert lines(caplog) == []
    # The one line that names a client is the one about a bug of ours.
    monkeypatch.setattr(live.server.broker.fetch_sessions, "begin", None)
    with live.socket() as peer:
        peer.sendall(framed(request_header(1, 4, client_id=client_id) + struct.pack(">iiiibi", -1, 0, 1, 1, 0, 0)))
        receive_frame(peer)
    monkeypatch.undo()
    (line,) = lines(caplog)
    assert line.startswith("FETCH v4 of client ")
    assert line.isprintable()
    assert len(line) < 300


# --- batches


def _produce(live: Live, topic: str, records: bytes | None, **options: Any) -> Any:
    answer = live.asker.produce(topic, records, **options)
    return answer if isinstance(answer, str) else answer["error_code"]


BAD_BATCHES: dict[str, tuple[bytes, set[int]]] = {
    "a corrupt checksum": (batch(crc_change=1), {2}),
    "a magic of 3": (batch(magic=3), {2}),
    "a magic of -1": (batch(magic=-1), {2}),
    "format 0": (legacy_message(0), {43}),
    "format 1": (legacy_message(1), {43}),
    "a count that is too high": (batch([b"a", b"b"], count=3, last_offset_delta=2), {87}),
    "a count that is too low": (batch([b"a", b"b"], count=1, last_offset_delta=0), {87}),
    "a count of zero": (batch([b"a"], count=0, last_offset_delta=-1), {87}),
    "a negative count": (batch([b"a"], count=-5), {87}),
    "a count of two thousand million": (batch([b"a"], count=2**31 - 1, last_offset_delta=2**31 - 2), {87}),
    "a last delta that differs": (batch([b"a", b"b"], last_offset_delta=5), {87}),
    "deltas with a gap": (batch([b"a", b"b"], deltas=[0, 2], count=2, last_offset_delta=1), {87}),
    "deltas from one": (batch([b"a", b"b"], deltas=[1, 2], last_offset_delta=1), {87}),
    "deltas backwards": (batch([b"a", b"b"], deltas=[1, 0], last_offset_delta=1), {87}),
    "deltas with a gap, compressed": (
        batch([b"a", b"b"], deltas=[0, 2], last_offset_delta=1, attributes=1, compress=gzip.compress),
        {87},
    ),
    "a base offset": (batch(base_offset=5), {87}),
    "a batch length of 10": (batch(length=10), {2}),
    "a negative batch length": (batch(length=-1), {2}),
    "a batch length that lies": (batch(length=5000), {2}),
    "two batches": (batch() + batch(), {87}),
    "no batch": (b"", {87}),
    "stray bytes behind a batch": (batch() + b"12345", {87}),
    "a control batch": (batch(attributes=0x20), {87}),
    "a producer without a sequence": (batch(producer=(5, 0, -1)), {87}),
    "the clock of the broker": (batch(attributes=0x08), {32}),
    "a codec that does not exist": (batch(attributes=5), {76}),
    "a record that is too long": (batch(records=b"\x7f" + raw_record(0, b"k", b"v")[1:]), {87}),
    "records left over": (batch(records=raw_record(0, b"k", b"v") + b"\x00\x00"), {87}),
    "gzip that is not": (batch(attributes=1, records=b"no gzip"), {2, 87}),
    "snappy that is not": (batch(attributes=2, records=b"\xff\xff\xff\xff\x0f no snappy"), {2, 10, 87}),
    "lz4 that is not": (batch(attributes=3, records=b"no lz4"), {2, 87}),
    "zstd that is not": (batch(attributes=4, records=b"no zstd"), {2, 87}),
    "gzip that is cut short": (batch(attributes=1, compress=lambda data: gzip.compress(data)[:-3]), {2, 87}),
    "zstd that is cut short": (batch(attributes=4, compress=lambda data: zstandard.compress(data)[:-1]), {2, 87}),
    "a batch that is too large": (batch([bytes(1_100_000)]), {10}),
}


@pytest.mark.parametrize(("records", "codes"), BAD_BATCHES.values(), ids=BAD_BATCHES)
def test_a_bad_batch_is_refused_and_nothing_of_it_is_stored(
    live: Live, topic: str, records: bytes, codes: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    before = live.server.broker.replicas.get(topic, 0).log.log_end_offset
    assert _produce(live, topic, records) in codes
    assert live.server.broker.replicas.get(topic, 0).log.log_end_offset == before
    # One line each, until there have been too many of them.
    assert lines(caplog) == []


@pytest.mark.parametrize("records", [batch(crc_change=1), b"", batch([bytes(1_100_000)])])
def test_a_bad_batch_without_acks_closes_the_connection(
    live: Live, topic: str, records: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with live.wire() as wire:
        wire.send_frame(wire.frame("Produce", 8, produce_fields(topic, records, 0, 0)))
        assert wire.receive() == CLOSED
    live.wait_until_gone()
    (line,) = lines(caplog)
    assert "a produce request without acks failed" in line


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_that_do_not_exist(live: Live, topic: str, acks: int) -> None:
    assert _produce(live, topic, batch(), acks=acks) == ErrorCode.INVALID_REQUIRED_ACKS


def test_a_good_batch_next_to_a_bad_one_is_stored(live: Live) -> None:
    topic = live.asker.topic(partitions=2)
    fields = produce_fields(topic, batch([b"good"]), -1, 0)
    fields["topic_data"][0]["partition_data"].append({"index": 1, "records": batch(crc_change=1)})
    with live.wire() as wire:
        answer = wire.ask("Produce", 8, **fields)
    assert isinstance(answer, dict)
    answers = answer["responses"][0]["partition_responses"]
    assert {part["index"]: part["error_code"] for part in answers} == {0: 0, 1: ErrorCode.CORRUPT_MESSAGE}
    assert len(live.asker.stored(topic)) == 1


# --- bombs


def _gzip_bomb(size_bytes: int) -> bytes:
    compressor = zlib.compressobj(9, wbits=31)
    block = bytes(MIB)
    return b"".join([compressor.compress(block) for _ in range(size_bytes // MIB)] + [compressor.flush()])


def _snappy_claim(size_bytes: int) -> bytes:
    claim = bytearray()
    while size_bytes > 0x7F:
        claim.append(size_bytes & 0x7F | 0x80)
        size_bytes >>= 7
    return bytes(claim) + bytes([size_bytes]) + b"\x00a"


BOMBS = {
    "gzip": lambda: batch(attributes=1, records=_gzip_bomb(150 * MIB)),
    "snappy that claims 4 GB": lambda: batch(attributes=2, records=_snappy_claim(2**32 - 1)),
    "snappy-java chunks that claim 4 GB": lambda: batch(
        attributes=2,
        records=b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + 100 * framed(_snappy_claim(2**32 - 1)),
    ),
    "lz4": lambda: batch(attributes=3, records=lz4.frame.compress(bytes(150 * MIB), block_linked=False)),
    "zstd": lambda: batch(attributes=4, records=zstandard.compress(bytes(150 * MIB), 19)),
    "a small zstd": lambda: batch(attributes=4, records=zstandard.compress(bytes(60 * MIB), 19)),
}


class Peak:
    """The most memory that the process had while the block ran, beyond what it had before."""

    def __enter__(self) -> Peak:
        self._before = resident_bytes()
        self.size_bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.001):
            self.size_bytes = max(self.size_bytes, resident_bytes() - self._before)

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS)
def test_a_decompression_bomb_is_refused_in_flat_memory(
    live: Live, topic: str, make: Callable[[], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    bomb = make()
    assert len(bomb) < 1_048_588, "it must be small enough to be let in"

    def attack() -> int:
        outcomes: list[Any] = []
        attackers = [threading.Thread(target=lambda: outcomes.append(_produce(live, topic, bomb))) for _ in range(8)]
        with Peak() as peak:
            for attacker in attackers:
                attacker.start()
            live.assert_serves()
            for attacker in attackers:
                attacker.join(120)
        assert outcomes == [ErrorCode.MESSAGE_TOO_LARGE] * 8
        return peak.size_bytes

    # Worker threads with one batch each, its frame and what the codec needs beside it; the attackers' own frames; and
    # what the allocator keeps for each of these threads. A bomb that went off would take hundreds of MiB.
    enough_bytes = 8 * (2 * OPENED_BYTES_MAX + 2 * MIB) + 48 * MIB
    assert least(attack, enough_bytes) < enough_bytes
    assert lines(caplog) == []


def test_thousands_of_small_bombs_in_one_request_let_others_work(live: Live) -> None:
    """One after the other on the event loop, they would stop the broker for minutes; together they have 6 GB."""
    topic = live.asker.topic()
    bomb = batch(attributes=4, records=zstandard.compress(bytes(3 * MIB), 19))
    assert len(bomb) < 1000
    fields = produce_fields(topic, bomb, -1, 0)
    fields["topic_data"][0]["partition_data"] *= 2000
    with live.wire() as wire, Peak() as peak:
        wire.send_frame(wire.frame("Produce", 8, fields))
        waits = []
        wait_until(lambda: live.in_flight_bytes > 0, "it is being served")
        for _ in range(5):
            started = time.monotonic()
            live.assert_serves(topic)
            waits.append(time.monotonic() - started)
        assert any(found._is_serving for found in live.connections()), f"it was over too soon to tell: {waits}"
        wait_until(lambda: live.in_flight_bytes == 0, "it is answered")
    assert peak.size_bytes < 128 * MIB


def test_a_question_repeated_thousands_of_times_is_answered_once(live: Live, topic: str) -> None:
    resource = DescribeConfigsRequestResource(resource_type=2, resource_name=topic, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource] * 20_000)
    with live.socket() as peer:
        peer.sendall(b"".join(encode_request(1, "t", request, 4)))
        assert len(receive_frame(peer)) < 100_000


def test_thousands_of_new_topics_in_one_question_are_not_created(live: Live) -> None:
    """Kafka creates as many as a client names; here a request may create as many partitions as CreateTopics may."""
    before = len(live.server.broker.image.topics)
    topics = [MetadataRequestTopic(name=f"flood-{number}") for number in range(PARTITIONS_PER_REQUEST_MAX + 1)]
    with live.socket() as peer:
        peer.sendall(b"".join(encode_request(1, "t", MetadataRequest(topics=topics), 12)))
        _, reply = decode_response(MetadataResponse, receive_frame(peer), 12)
    assert {topic.error_code for topic in reply.topics} == {ErrorCode.POLICY_VIOLATION}
    assert len(live.server.broker.image.topics) == before


# --- names of topics

BAD_NAMES = [
    "",
    ".",
    "..",
    "a/b",
    "../../x",
    "/etc/x",
    "a\x00b",
    "x" * 250,
    "naïve",
    "a b",
    "a:b",
    "a\nb",
    "-\\x",
    "\u202ex",
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=range(len(BAD_NAMES)))
def test_an_illegal_topic_name(live: Live, name: str, caplog: pytest.LogCaptureFixture) -> None:
    asker = live.asker
    assert asker.metadata(name)["topics"][0]["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert asker.metadata(name, auto_create=True)["topics"][0]["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert asker.create(creatable(name))[0]["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert _produce(live, name, batch()) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "as Kafka says it"
    assert lines(caplog) == []


def test_a_partition_that_cannot_be(live: Live, topic: str) -> None:
    for partition in (-1, -(2**31), 1, 2**31 - 1):
        assert _produce(live, topic, batch(), partition=partition) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
