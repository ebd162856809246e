"""Varints and the tagged section, which both codecs share."""

import pytest

from tailrace.protocol.errors import RemoteProtocolError
from tailrace.protocol.primitive import decode_varint, encode_varint, skip_tagged_fields


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**21, "80808001"), (2**32 - 1, "ffffffff0f")],
)
def test_varints(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert decode_varint(bytes.fromhex("aa" + encoded), 1) == (value, 1 + len(encoded) // 2)


@pytest.mark.parametrize("encoded", ["", "80", "ffffffff", "ffffffff10", "808080808000", "ffffffffff"])
def test_varints_that_lie(encoded: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_varint(bytes.fromhex(encoded), 0)


def test_unknown_tagged_fields_are_stepped_over() -> None:
    assert skip_tagged_fields(b"\0", 0) == 1
    assert skip_tagged_fields(bytes.fromhex("02 00 01 ff 8001 00 77"), 0) == 7


@pytest.mark.parametrize("encoded", ["", "01", "01 00", "01 00 02 ff", "02 00 01 ff"])
def test_tagged_sections_that_lie(encoded: str) -> None:
    with pytest.raises(RemoteProtocolError):
        skip_tagged_fields(bytes.fromhex(encoded), 0)
