"""Every message in every version: the compiled codec, the slow one and the declaration agree."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.protocol.sample import CASE_IDS, CASES, full_message, messages

from tailrace.protocol import codec, reference
from tailrace.protocol.message import Message

every_message_and_version = pytest.mark.parametrize(("cls", "version"), CASES, ids=CASE_IDS)


def check_round_trip(message: Any, version: int) -> None:
    encoded = reference.encode(message, version)
    assert codec.encode(message, version) == encoded
    for module in (codec, reference):
        assert module.decode(type(message), encoded, version) == (message, len(encoded))


@every_message_and_version
@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_both_codecs_give_the_same_bytes_and_read_them_back(
    cls: type[Message], version: int, data: st.DataObject
) -> None:
    check_round_trip(data.draw(messages(cls, version)), version)


@every_message_and_version
def test_a_message_of_defaults_and_a_full_one_survive(cls: type[Message], version: int) -> None:
    check_round_trip(full_message(cls, version), version)
    check_round_trip(cls(), version)


@every_message_and_version
def test_a_message_is_read_from_any_buffer_at_any_position(cls: type[Message], version: int) -> None:
    message = full_message(cls, version)
    encoded = codec.encode(message, version)
    framed = b"before" + encoded + b"behind"
    for buffer in (framed, bytearray(framed), memoryview(framed)):
        for module in (codec, reference):
            assert module.decode(cls, buffer, version, 6) == (message, 6 + len(encoded))


@every_message_and_version
def test_pieces_joined_are_the_message(cls: type[Message], version: int) -> None:
    message = full_message(cls, version)
    pieces: list[Any] = []
    codec.encode_into(message, version, pieces)
    assert b"".join(pieces) == codec.encode(message, version)
