"""Addresses as people write them."""

import pytest

from tailrace.client.address import Address, parse_addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", [Address("localhost", 9092)]),
        ("a:1, b:2,", [Address("a", 1), Address("b", 2)]),
        ("[::1]:9093", [Address("::1", 9093)]),
        ("[::1]", [Address("::1", 9092)]),
    ],
)
def test_addresses_are_read(text: str, expected: list[Address]) -> None:
    assert list(parse_addresses(text)) == expected


@pytest.mark.parametrize(
    "text", ["", " , ", ":9092", "host:", "host:x", "host:0", "host:65536", "::1", "[::1", "[::1]x"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_addresses(text)


def test_an_address_is_written_as_it_is_read() -> None:
    for address in (Address("host", 1), Address("::1", 9092)):
        assert parse_addresses(str(address)) == (address,)
