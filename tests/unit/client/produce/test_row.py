"""How records become a batch at once: the same bytes as one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.client.produce.row import ProducerStamp, Row, encode_rows, row_size_bytes
from tailrace.records.batch import HEADER_SIZE, check_crc, read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression

FIELDS = st.none() | st.binary(max_size=40) | st.integers(8000, 9000).map(lambda size: b"x" * size)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
ROWS = st.lists(st.tuples(st.integers(0, 2**41), FIELDS, FIELDS, HEADERS), min_size=1, max_size=20)


@given(ROWS, st.sampled_from(list(Compression)))
@settings(max_examples=60, deadline=None)
def test_a_batch_is_what_the_builder_makes(rows: list[Row], compression: Compression) -> None:
    builder = BatchBuilder(compression, producer_id=7, producer_epoch=2, base_sequence=11)
    for row in rows:
        assert builder.append(*row)
    assert bytes(encode_rows(rows, compression, None, ProducerStamp(7, 2, 11))) == bytes(builder.build())


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_the_size_is_reckoned_rather_too_large_when_times_are_near(rows: list[Row]) -> None:
    near = [(1_700_000_000_000 + index, *row[1:]) for index, row in enumerate(rows)]
    batch = encode_rows(near, Compression.NONE, None, ProducerStamp())
    assert len(batch) <= HEADER_SIZE + sum(row_size_bytes(*row[1:]) for row in near)


def test_the_checksum_is_right() -> None:
    batch = encode_rows([(5, b"k", b"v", ())], Compression.NONE, None, ProducerStamp(1, 0, 0))
    assert check_crc(batch, 0, read_header(batch))
