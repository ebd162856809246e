"""Mutated batches by the thousand, from seeds, so that a failure comes back.

Whatever the bytes are, reading them ends in records or in one of the errors that callers
know, and what validation lets through can be read.
"""

import random
from collections import Counter

import pytest

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP, write_crc
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression, decompress
from tailrace.records.error import RecordError
from tailrace.records.record import read_batches, read_records
from tailrace.records.validation import validate_batch

CASES_PER_CODEC = 3_000
LIMIT_BYTES = 64 * 1024


def build(rng: random.Random, codec: Compression) -> bytearray:
    builder = BatchBuilder(codec)
    for _ in range(rng.randrange(1, 8)):
        key = rng.choice([None, b"", b"key", rng.randbytes(20)])
        value = rng.choice([None, b"value" * rng.randrange(50), rng.randbytes(rng.randrange(300))])
        headers = [("header", rng.choice([None, b"x"]))] * rng.randrange(3)
        builder.append(rng.randrange(-1, 10**13), key, value, headers)
    return bytearray(builder.build())


def mutate(rng: random.Random, batch: bytearray, start: int) -> None:
    """One change from `start` on: a bit, a telling byte, a cut, a doubled or an inserted piece."""
    kind = rng.randrange(6)
    place = rng.randrange(start, len(batch)) if len(batch) > start else start
    if kind == 0 and place < len(batch):
        batch[place] ^= 1 << rng.randrange(8)
    elif kind == 1 and place < len(batch):
        batch[place] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF])
    elif kind == 2:
        del batch[place:]
    elif kind == 3:
        batch[place:place] = batch[place : place + rng.randrange(1, 30)]
    elif kind == 4:
        batch[place:place] = rng.randbytes(rng.randrange(1, 10))
    else:
        del batch[place : place + rng.randrange(1, 10)]


def repair(batch: bytearray) -> None:
    """Make length and checksum true, so that the change is met further inside."""
    if len(batch) >= HEADER_SIZE:
        batch[8:12] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
        write_crc(batch, 0, len(batch))


def validate(batch: bytearray) -> ErrorCode:
    try:
        valid = validate_batch(
            memoryview(batch), size_bytes_max=10_000, decompressed_bytes_max=LIMIT_BYTES, timestamp_max=2**60
        )
    except ApiError as error:
        return error.code
    records = list(read_records(batch))
    assert [record.offset for record in records] == list(range(valid.header.record_count))
    assert valid.max_timestamp == max(record.timestamp for record in records)
    assert records[valid.max_timestamp_offset_delta].timestamp == valid.max_timestamp
    assert all(record.timestamp <= 2**60 or record.timestamp == NO_TIMESTAMP for record in records)
    return ErrorCode.NONE


def read_all(batch: bytearray) -> None:
    try:
        for position, _ in read_batches(batch):
            list(read_records(batch, position, LIMIT_BYTES))
    except RecordError:
        pass


def test_mutated_batches(codec: Compression) -> None:
    codes: Counter[ErrorCode] = Counter()
    for seed in range(CASES_PER_CODEC):
        rng = random.Random(f"{codec} {seed}")
        batch = build(rng, codec)
        for _ in range(rng.randrange(1, 4)):
            mutate(rng, batch, rng.choice([0, HEADER_SIZE]))
        if rng.random() < 0.8:
            repair(batch)
        try:
            codes[validate(batch)] += 1
            read_all(batch)
        except Exception as error:
            pytest.fail(f"{codec.config_name}, seed {seed}: {error!r} from {batch.hex()}")
    # A run in which nothing passes, or nothing fails deep inside, would prove little.
    assert set(codes) >= {ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}, codes


def test_mutated_streams_stay_within_the_limit(packing_codec: Compression) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(CASES_PER_CODEC):
        rng = random.Random(f"{packing_codec} stream {seed}")
        stream = build(rng, packing_codec)[HEADER_SIZE:]
        for _ in range(rng.randrange(4)):
            mutate(rng, stream, 0)
        limit_bytes = rng.choice([0, 50, 500, LIMIT_BYTES])
        try:
            assert len(decompress(packing_codec, stream, limit_bytes)) <= limit_bytes
            outcomes["opened"] += 1
        except RecordError as error:
            outcomes[type(error).__name__] += 1
        except Exception as error:
            pytest.fail(f"{packing_codec.config_name}, seed {seed}: {error!r} from {stream.hex()}")
    assert set(outcomes) == {"opened", "CorruptBatch", "DecompressionLimit"}


def test_random_bytes() -> None:
    for seed in range(CASES_PER_CODEC):
        rng = random.Random(seed)
        batch = bytearray(rng.randbytes(rng.randrange(200)))
        if len(batch) > 16 and rng.random() < 0.7:
            batch[:8] = bytes(8)
            batch[16] = 2
            repair(batch)
        assert validate(batch) is not ErrorCode.NONE
        read_all(batch)
