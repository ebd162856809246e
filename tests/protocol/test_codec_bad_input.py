"""Whatever bytes arrive, a decoder returns a message or raises RemoteProtocolError, and builds nothing on a lie."""

import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from tests.least_peak import least_peak
from tests.protocol.sample import CASE_IDS, CASES, full_message

from tailrace.protocol import codec, reference
from tailrace.protocol.errors import RemoteProtocolError
from tailrace.protocol.frame import decode_request_header
from tailrace.protocol.message import Message
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.offset import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from tailrace.protocol.registry import message_types

every_message_and_version = pytest.mark.parametrize(("cls", "version"), CASES, ids=CASE_IDS)

REFUSED = "refused"
LIE_BYTES_MAX = 256 * 1024


def outcome(module: Any, cls: type[Message], data: bytes, version: int) -> object:
    """The message and position that a codec reads, or that it refuses; any other exception is the test's to see."""
    try:
        return module.decode(cls, data, version)
    except RemoteProtocolError:
        return REFUSED


@every_message_and_version
def test_every_prefix_of_an_encoding_is_refused(cls: type[Message], version: int) -> None:
    encoded = codec.encode(full_message(cls, version), version)
    for size in range(len(encoded)):
        for module in (codec, reference):
            with pytest.raises(RemoteProtocolError):
                module.decode(cls, encoded[:size], version)


def mutations(encoded: bytes, count: int, seed: str) -> Iterator[bytes]:
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(encoded)
        for _ in range(chance.randint(1, 3)):
            start = chance.randrange(len(data) + 1)
            stop = min(start + chance.choice([0, 1, 1, 2, 4]), len(data))
            data[start:stop] = chance.choice(
                [b"", b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", chance.randbytes(stop - start)]
            )
        yield bytes(data)


@every_message_and_version
def test_both_codecs_judge_mutated_encodings_alike(cls: type[Message], version: int) -> None:
    encoded = codec.encode(full_message(cls, version), version)
    for data in mutations(encoded, count=60, seed=f"{cls.__name__} {version}"):
        assert outcome(codec, cls, data, version) == outcome(reference, cls, data, version), data.hex()


@pytest.mark.parametrize("cls", message_types(), ids=lambda cls: cls.__name__)
def test_a_count_or_length_that_lies_allocates_nothing(cls: type[Message]) -> None:
    """A huge number is put at each position in turn, so that each count and each length becomes one."""
    for version in (cls.SCHEMA.versions[0], cls.SCHEMA.versions[-1]):
        encoded = codec.encode(full_message(cls, version), version)
        huge = b"\xff\xff\xff\xff\x07" if version in cls.SCHEMA.flexible else b"\x7f\xff\xff\xff"
        outcome(codec, cls, encoded, version)  # compiles the decoder, which is allowed to take memory

        def decode_lies(encoded: bytes = encoded, huge: bytes = huge, version: int = version) -> None:
            for position in range(len(encoded)):
                outcome(codec, cls, encoded[:position] + huge + encoded[position + len(huge) :], version)

        assert least_peak(decode_lies, LIE_BYTES_MAX) < LIE_BYTES_MAX


@pytest.mark.parametrize("version", [1, 12], ids=["old", "flexible"])
def test_an_array_that_is_as_large_as_it_says_is_read(version: int) -> None:
    """The refusals above are for lies: an honest array of the same message is taken whole."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t") for _ in range(20_000)])
    assert codec.decode(MetadataRequest, codec.encode(request, version), version)[0] == request


@pytest.mark.parametrize("version", [1, 12], ids=["old", "flexible"])
def test_a_caller_may_bound_how_many_elements_it_reads(version: int) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t") for _ in range(100)])
    encoded = codec.encode(request, version)
    assert codec.decode(MetadataRequest, encoded, version, element_count_max=100)[0] == request
    with pytest.raises(RemoteProtocolError, match="more elements than one message may have"):
        codec.decode(MetadataRequest, encoded, version, element_count_max=99)


def test_the_bound_is_for_all_arrays_together() -> None:
    topics = [OffsetForLeaderEpochRequestTopic(topic="t", partitions=_partitions(10)) for _ in range(10)]
    encoded = codec.encode(OffsetForLeaderEpochRequest(topics=topics), 4)
    codec.decode(OffsetForLeaderEpochRequest, encoded, 4, element_count_max=110)
    with pytest.raises(RemoteProtocolError, match="more elements"):
        codec.decode(OffsetForLeaderEpochRequest, encoded, 4, element_count_max=109)


def _partitions(count: int) -> list[OffsetForLeaderEpochRequestPartition]:
    return [OffsetForLeaderEpochRequestPartition(partition=number) for number in range(count)]


def test_unknown_tagged_fields_count_as_elements() -> None:
    """Stepping over fifty million empty ones would take half a minute."""
    encoded = codec.encode(MetadataRequest(topics=[]), 12)[:-1] + b"\x03" + b"\x63\x00" * 3
    codec.decode(MetadataRequest, encoded, 12, element_count_max=3)
    with pytest.raises(RemoteProtocolError, match="more elements"):
        codec.decode(MetadataRequest, encoded, 12, element_count_max=2)


def test_a_header_has_few_tagged_fields() -> None:
    head = struct.pack(">hhih", 3, 12, 1, -1)
    decode_request_header(head + b"\x40" + b"\x63\x00" * 64)
    with pytest.raises(RemoteProtocolError, match="65 tagged fields"):
        decode_request_header(head + b"\x41" + b"\x63\x00" * 65)
