"""A segment with a broken batch: its readers hear CORRUPT_MESSAGE, and everybody reads all the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from tests.clients.ask.fetch import fetch_fields
from tests.clients.raw import batch
from tests.faults.live import Live

import tailrace
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import check_crc, read_header
from tailrace.records.error import RecordError
from tailrace.records.record import read_batches, read_records

TOPIC = "damaged"
COUNT = 60
BROKEN = 31  # the batch at fault, and the offset of its only record
LOG = f"{TOPIC}-0/00000000000000000000.log"

# Where in the batch what is written: each is damage of another kind.
HEADERS = {
    "magic": (16, b"\x09"),
    "length": (8, b"\x00\x00\x70\x00"),
    "offset": (0, b"\x00\x00\x00\x00\x00\x01"),
    "whole header": (0, b"\xff" * 61),
}
BODIES = {"body": (70, b"\xff\xff"), "checksum": (17, b"\x00\x00\x00\x00")}


def value(offset: int) -> bytes:
    return b"%04d" % offset * 20


@pytest.fixture(params=[False, True], ids=["in use", "started again"])
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    """A broker with a topic of many small batches, which wrote them or found them when it started."""
    options = {"log.index.interval.bytes": "500"}
    server = Live(tmp_path, options)
    with server:
        server.asker.topic(TOPIC)
        for offset in range(COUNT):
            assert server.asker.produce(TOPIC, batch([value(offset)]))["base_offset"] == offset
        if not request.param:
            yield server
            return
    with Live(tmp_path, options) as again:
        yield again


def destroy(tmp_path: Path, at: int, data: bytes) -> None:
    path = tmp_path / LOG
    contents = bytearray(path.read_bytes())
    position = list(read_batches(contents))[BROKEN][0]
    with path.open("r+b") as file:
        file.seek(position + at)
        file.write(data)


def fetch(live: Live, offset: int) -> dict[str, Any]:
    """One fetch as it goes over the wire, of one batch."""
    fields = fetch_fields(TOPIC, offset, partition_max_bytes=1)
    answer = live.asker.fields("Fetch", 12, **fields)
    partition: dict[str, Any] = answer["responses"][0]["partitions"][0]
    return partition


@pytest.mark.parametrize("kind", [*HEADERS, *BODIES])
def test_every_other_offset_is_served_over_the_wire(live: Live, tmp_path: Path, kind: str) -> None:
    destroy(tmp_path, *(HEADERS | BODIES)[kind])
    for offset in range(COUNT):
        partition = fetch(live, offset)
        if offset != BROKEN:
            assert partition["error_code"] == 0, offset
            (record,) = read_records(partition["records"])
            assert (record.offset, record.value) == (offset, value(offset))
        elif kind in HEADERS:
            assert partition["error_code"] == ErrorCode.CORRUPT_MESSAGE
        else:
            assert partition["error_code"] == 0
            assert not check_crc(partition["records"], 0, read_header(partition["records"]))


@pytest.mark.parametrize("kind", ["length", "offset", "body"])
def test_our_consumer_stops_there_says_so_and_goes_on_behind_it(live: Live, tmp_path: Path, kind: str) -> None:
    destroy(tmp_path, *(HEADERS | BODIES)[kind])
    with tailrace.Consumer(live.bootstrap).assign([(TOPIC, 0, "earliest")]) as consumer:
        found = [next(consumer) for _ in range(BROKEN)]
        assert [record.offset for record in found] == list(range(BROKEN))
        with pytest.raises((ApiError, RecordError)) as caught:
            next(consumer)
        assert "CORRUPT_MESSAGE" in str(caught.value) or "wrong checksum" in str(caught.value)
        assert str(BROKEN) in str(caught.value)
        # It does not go on as if nothing had happened.
        with pytest.raises((ApiError, RecordError)):
            next(consumer)
        consumer.seek(TOPIC, 0, BROKEN + 1)
        behind = [next(consumer) for _ in range(BROKEN + 1, COUNT)]
    assert [(record.offset, record.value) for record in behind] == [(n, value(n)) for n in range(BROKEN + 1, COUNT)]


@pytest.mark.parametrize("kind", ["magic", "body"])
def test_confluent_s_consumer_hears_it_and_reads_the_rest(live: Live, tmp_path: Path, kind: str) -> None:
    """Two consumers, because librdkafka may go on by itself after a wrong checksum, at an offset out of the air."""
    destroy(tmp_path, *(HEADERS | BODIES)[kind])
    before, error = read_with_confluent(live, 0)
    assert before == list(range(BROKEN))
    # librdkafka takes a wrong magic for a version of the format that it does not know.
    assert error == {"magic": "_NOT_IMPLEMENTED", "body": "_BAD_MSG"}[kind]
    assert read_with_confluent(live, BROKEN + 1) == (list(range(BROKEN + 1, COUNT)), "_PARTITION_EOF")
    if kind == "magic":
        assert read_with_confluent(live, BROKEN)[0] == []


def read_with_confluent(live: Live, offset: int) -> tuple[list[int], str]:
    """The offsets that a consumer gets, and the name of the error or of the end after them."""
    settings = {"bootstrap.servers": live.bootstrap, "group.id": "unused", "check.crcs": True}
    consumer = confluent_kafka.Consumer(settings | {"enable.partition.eof": True})
    offsets: list[int] = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, offset)])
        while True:
            message = consumer.poll(60)
            assert message is not None
            if (error := message.error()) is not None:
                return offsets, str(error.name())
            position = message.offset()
            assert position is not None
            offsets.append(position)
    finally:
        consumer.close()
