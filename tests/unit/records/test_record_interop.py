"""Batches of ours read by other libraries, and theirs by ours."""

import warnings
from collections.abc import Iterable
from types import ModuleType

import aiokafka.record.default_records as aiokafka_records
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.records.made_batch import RecordFields

from tailrace.records.batch import check_crc, read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.record import Headers, Record, read_records

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python loads its schemas the old way
    import kafka.record.default_records as kafka_python_records
    from kafka.codec import has_snappy as kafka_python_has_snappy

LIBRARIES: dict[str, ModuleType] = {
    "aiokafka": aiokafka_records,
    "kafka-python": kafka_python_records,
}

RECORDS = (
    Record(0, 1_700_000_000_000, b"key", b"value", (("name", b"header"), ("null", None), ("", b""))),
    Record(1, 1_700_000_000_005, None, b"v" * 70_000, ()),
    Record(2, 1_699_999_999_000, b"", None, (("schlüssel", "größe".encode()),)),
    Record(3, 1_700_000_000_001, None, None, ()),
    Record(4, 1_700_000_000_001, b"k" * 300, bytes(range(256)) * 100, ()),
)

headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
fields = st.none() | st.binary(max_size=200)
# The other builders take None for a timestamp as now and write no -1, so ours is tried alone with it.
record_lists = st.lists(st.tuples(st.integers(0, 2**40), fields, fields, headers), min_size=1, max_size=20)


@pytest.fixture(params=sorted(LIBRARIES))
def library(request: pytest.FixtureRequest, codec: Compression) -> ModuleType:
    if request.param == "kafka-python" and codec is Compression.SNAPPY and not kafka_python_has_snappy():
        pytest.skip("kafka-python has no snappy without python-snappy")
    return LIBRARIES[request.param]


def build_ours(codec: Compression, records: Iterable[Record]) -> bytes:
    builder = BatchBuilder(codec, producer_id=11, producer_epoch=2, base_sequence=4)
    for record in records:
        assert builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build()


def build_theirs(library: ModuleType, codec: Compression, records: Iterable[Record]) -> bytes:
    builder = library.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=11,
        producer_epoch=2,
        base_sequence=4,
        batch_size=1 << 20,
    )
    for record in records:
        assert builder.append(
            record.offset, record.timestamp, record.key, record.value, [(key, value) for key, value in record.headers]
        )
    return bytes(builder.build())


def read_theirs(library: ModuleType, batch: bytes) -> tuple[Record, ...]:
    opened = library.DefaultRecordBatch(batch)
    assert opened.validate_crc()
    return tuple(
        Record(record.offset, record.timestamp, record.key, record.value, normalise(record.headers))
        for record in opened
    )


def normalise(pairs: Iterable[tuple[str, bytes | None]]) -> Headers:
    return tuple((key, value) for key, value in pairs)


def test_others_read_ours(library: ModuleType, codec: Compression) -> None:
    assert read_theirs(library, build_ours(codec, RECORDS)) == RECORDS


def test_ours_reads_others(library: ModuleType, codec: Compression) -> None:
    batch = build_theirs(library, codec, RECORDS)
    header = read_header(batch)
    assert header.compression is codec
    assert check_crc(batch, 0, header)
    assert tuple(read_records(batch)) == RECORDS


def test_uncompressed_bytes_are_the_same() -> None:
    ours = build_ours(Compression.NONE, RECORDS)
    assert ours == build_theirs(aiokafka_records, Compression.NONE, RECORDS)
    # kafka-python leaves the leader epoch 0 where Kafka's producer writes -1.
    theirs = build_theirs(kafka_python_records, Compression.NONE, RECORDS)
    assert ours[:12] + ours[16:] == theirs[:12] + theirs[16:]


@settings(max_examples=60)
@given(record_lists)
def test_any_records_have_the_same_bytes(contents: list[RecordFields]) -> None:
    records = [
        Record(index, timestamp, key, value, tuple(pairs))
        for index, (timestamp, key, value, pairs) in enumerate(contents)
    ]
    assert build_ours(Compression.NONE, records) == build_theirs(aiokafka_records, Compression.NONE, records)


@settings(max_examples=60)
@given(record_lists, st.sampled_from(list(Compression)))
def test_round_trip(contents: list[RecordFields], codec: Compression) -> None:
    records = tuple(
        Record(index, timestamp, key, value, tuple(pairs))
        for index, (timestamp, key, value, pairs) in enumerate(contents)
    )
    assert tuple(read_records(build_ours(codec, records))) == records
