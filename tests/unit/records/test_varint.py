"""Zig-zag integers against another library and at their edges."""

import pytest
from aiokafka.record.util import decode_varint, encode_varint
from hypothesis import given
from hypothesis import strategies as st

from tailrace.records.varint import VarintCut, VarintTooLong, read_varint, read_varlong, varint_size, write_varint

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def encode(value: int) -> bytes:
    output = bytearray()
    write_varint(output, value)
    return bytes(output)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_bytes(value: int, encoded: str) -> None:
    assert encode(value).hex() == encoded
    assert varint_size(value) == len(encoded) // 2


@given(INT64)
def test_same_bytes_as_another_library(value: int) -> None:
    theirs = bytearray()
    encode_varint(value, theirs.append)
    assert encode(value) == theirs
    assert decode_varint(bytearray(encode(value)), 0) == (value, varint_size(value))


@given(INT64, st.binary(max_size=3), st.binary(max_size=3))
def test_varlong_round_trip(value: int, before: bytes, after: bytes) -> None:
    data = before + encode(value) + after
    assert read_varlong(data, len(before), len(data)) == (value, len(data) - len(after))


@given(INT32, st.binary(max_size=3), st.binary(max_size=3))
def test_varint_round_trip(value: int, before: bytes, after: bytes) -> None:
    data = before + encode(value) + after
    assert read_varint(data, len(before), len(data)) == (value, len(data) - len(after))


@given(INT64)
def test_every_prefix_is_cut(value: int) -> None:
    data = encode(value)
    for end in range(len(data)):
        with pytest.raises(VarintCut):
            read_varlong(data, 0, end)


def test_numbers_that_do_not_end() -> None:
    with pytest.raises(VarintTooLong):
        read_varint(b"\x80" * 5 + b"\x00", 0, 6)
    with pytest.raises(VarintTooLong):
        read_varlong(b"\x80" * 10 + b"\x00", 0, 11)


def test_bits_that_do_not_fit_are_dropped_as_in_java() -> None:
    assert read_varint(b"\xfe\xff\xff\xff\x7f", 0, 5) == (2**31 - 1, 5)
    assert read_varlong(b"\xfe" + b"\xff" * 8 + b"\x7f", 0, 10) == (2**63 - 1, 10)
