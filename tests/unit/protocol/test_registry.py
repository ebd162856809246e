"""The list of everything that can be put on the wire."""

import pytest

from tailrace.protocol import registry
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.messages.fetch import FetchRequest, FetchResponse

# What every mainstream client needs: the floor that this project sets itself.
FLOOR = [*range(4), *range(8, 29), 32, 33, 35, 36, 37, 42, 44, 47, 60, 61, 65, 66, 68, 69, 74, 75]


def test_the_floor_is_there() -> None:
    assert set(FLOOR) <= set(registry.API_KEYS)


def test_requests_and_responses_come_in_pairs() -> None:
    for key in registry.API_KEYS:
        request, response = registry.request_type(key), registry.response_type(key)
        assert request.__name__.removesuffix("Request") == response.__name__.removesuffix("Response")
        assert request.SCHEMA.versions == response.SCHEMA.versions
        assert request.SCHEMA.flexible == response.SCHEMA.flexible
        assert request.SCHEMA.key is response.SCHEMA.key is key


def test_names_are_kafkas() -> None:
    """Kafka derives the key's name from the message's, so one checks the other."""
    for key in registry.API_KEYS:
        words = registry.request_type(key).__name__.removesuffix("Request")
        assert "".join(f"_{letter}" if letter.isupper() else letter for letter in words)[1:].upper() == key.name


def test_lookups() -> None:
    assert registry.request_type(1) is FetchRequest
    assert registry.response_type(ApiKey.FETCH) is FetchResponse
    assert registry.version_range(ApiKey.FETCH) == (4, 18)
    assert registry.find_request_type(9999) is None
    with pytest.raises(KeyError):
        registry.request_type(9999)
    assert len(registry.message_types()) == 2 * len(registry.API_KEYS)


def test_every_message_and_struct_says_what_it_is() -> None:
    for family in registry.FAMILIES:
        assert family.__doc__
    for cls in registry.message_types():
        assert cls.__doc__
        assert cls.__doc__.endswith(".")
