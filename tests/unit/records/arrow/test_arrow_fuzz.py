"""Mutated fetches by the thousand into columns, from seeds, so that a failure comes back.

Whatever the bytes are, decoding ends in record batches that Arrow finds valid, or in one of the
errors that callers know, and the twins agree on it. TAILRACE_FUZZ_CASES asks for more than the few
that each run of the tests can spare; docs/benchmarks/arrow_codec.md says how to do it with a
native module that watches its memory.
"""

import os
import random
from collections import Counter

import pyarrow as pa
import pytest
from tests.unit.records.arrow.arrow_twin import decode_all, join, native, needs_native, twin
from tests.unit.records.mutation import TELLING, build, mutate, repair

from tailrace.records.arrow.decode import ColumnDecoder
from tailrace.records.arrow.encode import RowEncoder
from tailrace.records.arrow.partition import group_rows, partition_keys
from tailrace.records.arrow.schema import ALL_COLUMNS
from tailrace.records.batch import HEADER_SIZE
from tailrace.records.compression import Compression
from tailrace.records.error import RecordError

CASES_PER_CODEC = int(os.environ.get("TAILRACE_FUZZ_CASES", "1000"))


def fetch(rng: random.Random, codec: Compression) -> bytes:
    """A few batches, of which some are damaged."""
    batches = []
    for _ in range(rng.randrange(1, 4)):
        batch = build(rng, rng.choice([codec, Compression.NONE]))
        if rng.random() < 0.6:
            mutate(rng, batch)
            if rng.random() < 0.9:
                repair(batch)
        batches.append(batch if len(batch) >= HEADER_SIZE else bytes(build(rng, codec)))
    data = join(batches)
    return bytes(data[: rng.randrange(len(data))] if rng.random() < 0.2 else data)


@needs_native
def test_mutated_fetches(codec: Compression) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(CASES_PER_CODEC):
        rng = random.Random(f"{codec} {seed}")
        data = fetch(rng, codec)
        columns = rng.sample(ALL_COLUMNS, rng.randrange(1, 9))
        decoder = ColumnDecoder(
            "t", 0, columns, check_crcs=rng.random() < 0.7, decompressed_bytes_max=2_000, chunk_bytes_max=500
        )
        start_offset, end_offset = rng.randrange(6), rng.choice([None, rng.randrange(20)])
        results = []
        for name in ("python", "native"):
            with twin(name):
                results.append(decode_all(decoder, data, start_offset, end_offset))
        assert results[0] == results[1], f"{codec.config_name}, seed {seed}"
        table, _, failure = results[0]
        outcomes[failure[0].__name__ if failure else "whole"] += 1
        outcomes["records"] += table.num_rows
        assert failure is None or issubclass(failure[0], RecordError)
    # A run in which nothing passes, or nothing fails deep inside, would prove little.
    assert outcomes["whole"] > CASES_PER_CODEC // 5, outcomes
    assert outcomes["CorruptBatch"] > CASES_PER_CODEC // 5, outcomes
    assert outcomes["records"] > CASES_PER_CODEC, outcomes


@needs_native
def test_random_bytes_with_a_true_header() -> None:
    """Bodies of bytes that often look like small numbers, behind a header that says anything about them."""
    for seed in range(CASES_PER_CODEC):
        rng = random.Random(seed)
        batch = build(rng, Compression.NONE)
        batch[HEADER_SIZE:] = bytes(rng.choice((0, 1, 2, 4, 12, 14, *TELLING)) for _ in range(rng.randrange(100)))
        batch[57:61] = rng.randrange(-1, 10).to_bytes(4, "big", signed=True)
        repair(batch)
        results = []
        for name in ("python", "native"):
            with twin(name):
                results.append(decode_all(ColumnDecoder("t", 0), bytes(batch)))
        assert results[0] == results[1], f"seed {seed}"


def random_array(rng: random.Random, count: int, kind: pa.DataType) -> pa.Array:
    array = pa.array([rng.choice([None, b"", b"x" * rng.randrange(40)]) for _ in range(count + 3)], kind)
    return array.slice(rng.randrange(4), count)


def with_own_offsets(array: pa.Array) -> tuple[pa.Array, bytearray]:
    """The same array, and the memory of its offsets, to be damaged after Arrow has looked at it."""
    validity, offsets, data = array.buffers()
    memory = bytearray(offsets)
    buffers = [validity, pa.py_buffer(memory), data]
    return pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset), memory


@needs_native
@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_damaged_columns(kind: pa.DataType) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(CASES_PER_CODEC):
        rng = random.Random(f"{kind} {seed}")
        count = rng.randrange(1, 12)
        key, value = random_array(rng, count, kind), random_array(rng, count, kind)
        value, memory = with_own_offsets(value)
        table = pa.record_batch({"key": key, "value": value})
        if rng.random() < 0.7:
            memory[rng.randrange(len(memory))] ^= 1 << rng.randrange(8)
        size_bytes_max = rng.randrange(300)
        results = []
        for name in ("python", "native"):
            with twin(name):
                results.append(encode_rows(table, size_bytes_max))
        assert results[0] == results[1], f"{kind}, seed {seed}"
        outcomes[results[0][0]] += 1
    assert set(outcomes) == {"batches", "error"}


def encode_rows(table: pa.RecordBatch, size_bytes_max: int) -> tuple[str, object]:
    """The batches of a table by the partitions of its values, or the error."""
    encoder = RowEncoder(table)
    batches = []
    try:
        for rows in group_rows(partition_keys(table["value"], 3).fill_null(2), 3):
            start = 0
            while start < len(rows):
                encoded = encoder.encode(start, rows=rows, size_bytes_max=size_bytes_max)
                batches.append(bytes(encoded.batch))
                start += encoded.row_count
    except ValueError as error:
        return "error", str(error)
    return "batches", batches


@needs_native
def test_scan_stays_within_the_buffer() -> None:
    data = bytes(join([build(random.Random(1), Compression.NONE)] * 3))
    for position in (-1, len(data) + 1):
        with pytest.raises(ValueError, match="within"):
            native.scan_plain_batches(data, position, 0, 10, True, -1, 10_000, 100, None)
    assert native.scan_plain_batches(data, len(data), 0, 10, True, -1, 10_000, 100, None) == ([], len(data), 0, 0)
