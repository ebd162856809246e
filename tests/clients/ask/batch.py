"""Record batches that are wrong, and what happens to them."""

from __future__ import annotations

import gzip
from typing import Any

from tests.clients.ask.asker import Asker, produce_fields, question
from tests.clients.ask.produce import then_stored
from tests.clients.raw import batch, legacy_message, record, varint

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40


def _gzipped(*deltas: int) -> bytes:
    return batch([b"v"] * len(deltas), deltas=deltas, attributes=GZIP, compress=gzip.compress)


@question
def magic_1(asker: Asker) -> Any:
    """A message set of format 1 in v7."""
    return then_stored(asker, legacy_message(1), version=7)


@question
def magic_0(asker: Asker) -> Any:
    """A message set of format 0 in v7."""
    return then_stored(asker, legacy_message(0), version=7)


@question
def magic_1_v8(asker: Asker) -> Any:
    """The same of format 1 in v8, which can carry a message."""
    return then_stored(asker, legacy_message(1))


@question
def magic_3(asker: Asker) -> Any:
    """A batch whose magic says 3."""
    return then_stored(asker, batch(magic=3))


@question
def magic_negative(asker: Asker) -> Any:
    """A batch whose magic says -1."""
    return then_stored(asker, batch(magic=-1))


@question
def codec_5(asker: Asker) -> Any:
    """A batch with the codec id 5."""
    return then_stored(asker, batch(attributes=5))


@question
def codec_7(asker: Asker) -> Any:
    """A batch with the codec id 7."""
    return then_stored(asker, batch(attributes=7))


@question
def zstd_in_v6(asker: Asker) -> Any:
    """A zstd batch in v6, which came before zstd."""
    return then_stored(asker, batch(attributes=ZSTD), version=6)


@question
def two_batches(asker: Asker) -> Any:
    """Two good batches in one partition's records."""
    return then_stored(asker, batch() + batch())


@question
def no_records(asker: Asker) -> Any:
    """A batch of no records: count 0, last offset delta -1."""
    return then_stored(asker, batch([]))


@question
def no_records_delta_zero(asker: Asker) -> Any:
    """A batch of no records: count 0, last offset delta 0."""
    return then_stored(asker, batch([], last_offset_delta=0))


@question
def count_too_high(asker: Asker) -> Any:
    """Count and last offset delta say three, the body has two."""
    return then_stored(asker, batch([b"a", b"b"], count=3, last_offset_delta=2))


@question
def count_too_low(asker: Asker) -> Any:
    """Count and last offset delta say one, the body has two."""
    return then_stored(asker, batch([b"a", b"b"], count=1, last_offset_delta=0))


@question
def count_differs_from_delta(asker: Asker) -> Any:
    """Two records and a last offset delta of 5."""
    return then_stored(asker, batch([b"a", b"b"], last_offset_delta=5))


@question
def count_negative(asker: Asker) -> Any:
    """A count of -1."""
    return then_stored(asker, batch(count=-1))


@question
def bad_crc(asker: Asker) -> Any:
    """A checksum that is off by one."""
    return then_stored(asker, batch(crc_change=1))


@question
def base_offset_5(asker: Asker) -> Any:
    """A base offset of 5 in the batch that is sent."""
    return then_stored(asker, batch(base_offset=5))


@question
def delta_gap(asker: Asker) -> Any:
    """Offset deltas 0 and 2, uncompressed, count 2, last offset delta 2."""
    return then_stored(asker, batch([b"a", b"b"], deltas=[0, 2]))


@question
def delta_gap_hidden(asker: Asker) -> Any:
    """Offset deltas 0, 2, 2, uncompressed: the header agrees with itself."""
    return then_stored(asker, batch([b"a", b"b", b"c"], deltas=[0, 2, 2]))


@question
def delta_gap_compressed(asker: Asker) -> Any:
    """Offset deltas 0 and 2, gzip, count 2, last offset delta 2."""
    return then_stored(asker, _gzipped(0, 2))


@question
def delta_gap_hidden_compressed(asker: Asker) -> Any:
    """Offset deltas 0, 2, 2, gzip: the header agrees with itself."""
    return then_stored(asker, _gzipped(0, 2, 2))


@question
def delta_from_one(asker: Asker) -> Any:
    """Offset deltas 1 and 2, uncompressed, with a last offset delta of 1."""
    return then_stored(asker, batch([b"a", b"b"], deltas=[1, 2], last_offset_delta=1))


@question
def claims_log_append_time(asker: Asker) -> Any:
    """A batch with the LogAppendTime bit, to a CreateTime topic."""
    return then_stored(asker, batch(attributes=LOG_APPEND_TIME))


@question
def claims_log_append_time_allowed(asker: Asker) -> Any:
    """The same to a LogAppendTime topic."""
    return then_stored(asker, batch(attributes=LOG_APPEND_TIME), message_timestamp_type="LogAppendTime")


@question
def control_batch(asker: Asker) -> Any:
    """A control batch from a client."""
    return then_stored(asker, batch(attributes=CONTROL))


@question
def transactional_without_producer(asker: Asker) -> Any:
    """A transactional batch without a producer id."""
    return then_stored(asker, batch(attributes=TRANSACTIONAL))


@question
def delete_horizon_bit(asker: Asker) -> Any:
    """A batch with the delete-horizon bit."""
    return then_stored(asker, batch(attributes=DELETE_HORIZON))


@question
def unknown_attribute_bit(asker: Asker) -> Any:
    """A batch with attribute bit 9, which has no meaning yet."""
    return then_stored(asker, batch(attributes=0x200))


@question
def batch_length_short(asker: Asker) -> Any:
    """A batch length of 10, less than any header."""
    return then_stored(asker, batch(length=10))


@question
def batch_length_long(asker: Asker) -> Any:
    """A batch length larger than the bytes that were sent."""
    return then_stored(asker, batch(length=5000))


@question
def batch_length_negative(asker: Asker) -> Any:
    """A batch length of -1."""
    return then_stored(asker, batch(length=-1))


@question
def bytes_after_batch(asker: Asker) -> Any:
    """Five stray bytes behind a good batch."""
    return then_stored(asker, batch() + b"stray")


@question
def record_length_lies(asker: Asker) -> Any:
    """A record that claims to be longer than the batch."""
    return then_stored(asker, batch(records=varint(500) + record(0, b"k", b"v")[1:]))


@question
def record_length_short(asker: Asker) -> Any:
    """A record that claims to be shorter than its fields."""
    return then_stored(asker, batch(records=varint(4) + record(0, b"k", b"v")[1:]))


@question
def header_count_negative(asker: Asker) -> Any:
    """A record with -1 headers."""
    return then_stored(asker, batch(records=record(0, b"k", b"v", headers=varint(-1))))


@question
def header_key_null(asker: Asker) -> Any:
    """A record header whose key has the length -1."""
    return then_stored(asker, batch(records=record(0, b"k", b"v", headers=varint(1) + varint(-1) + varint(0))))


@question
def header_count_lies(asker: Asker) -> Any:
    """A record that promises 100 headers and has none."""
    return then_stored(asker, batch(records=record(0, b"k", b"v", headers=varint(100))))


@question
def compressed_garbage(asker: Asker) -> Any:
    """A gzip batch whose body is not gzip."""
    return then_stored(asker, batch(attributes=GZIP))


@question
def compressed_bytes_left_over(asker: Asker) -> Any:
    """A gzip batch of one record with five bytes more inside the compressed body."""
    return then_stored(asker, batch(attributes=GZIP, compress=lambda body: gzip.compress(body + b"extra")))


@question
def timestamp_far_future(asker: Asker) -> Any:
    """Three records from the year 2100: the code, and which records of the batch are named as the reason."""
    return _blamed(asker, asker.topic(), batch([b"a", b"b", b"c"], timestamp_ms=4_102_444_800_000))


def _blamed(asker: Asker, topic: str, records: bytes) -> Any:
    answer = asker.fields("Produce", 8, **produce_fields(topic, records, -1, 0))
    partition = answer["responses"][0]["partition_responses"][0]
    return [partition["error_code"], [error["batch_index"] for error in partition["record_errors"]]]


@question
def timestamp_minus_1(asker: Asker) -> Any:
    """A batch without a timestamp (-1)."""
    return then_stored(asker, batch(timestamp_ms=-1))


@question
def timestamp_minus_5(asker: Asker) -> Any:
    """A batch with a timestamp of -5."""
    return then_stored(asker, batch(timestamp_ms=-5))


@question
def null_key_on_compacted(asker: Asker) -> Any:
    """Two records without keys to a compacted topic: the code, and which records are named as the reason."""
    return _blamed(asker, asker.topic(cleanup_policy="compact"), batch([b"a", b"b"], key=None))


@question
def too_large(asker: Asker) -> Any:
    """A batch over max.message.bytes."""
    return then_stored(asker, batch([b"x" * 2000]), max_message_bytes="1000")


@question
def larger_than_segment(asker: Asker) -> Any:
    """A batch within max.message.bytes and over segment.bytes (1 MiB, the least that is allowed)."""
    return then_stored(asker, batch([b"x" * 1_100_000]), max_message_bytes="2000000", segment_bytes="1048576")
