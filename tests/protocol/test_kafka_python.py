"""Our bytes are kafka-python's bytes, for every message and version that both know."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.protocol.independent import COMPARED, UNKNOWN, convert, drop_extensions, reencode
from tests.protocol.sample import CASES, full_message, messages

from tailrace.protocol import codec
from tailrace.protocol.message import Message

every_shared_message_and_version = pytest.mark.parametrize(
    ("cls", "version"), COMPARED, ids=[f"{cls.__name__}-v{version}" for cls, version in COMPARED]
)


def check_against_kafka_python(message: Any, version: int) -> None:
    drop_extensions(message)
    ours = codec.encode(message, version)
    theirs = bytes(convert(message, version).encode(version=version))
    assert theirs == ours
    assert codec.decode(type(message), theirs, version) == (message, len(theirs))
    assert reencode(type(message), ours, version) == ours


@every_shared_message_and_version
def test_a_full_message_is_the_same_on_both_sides(cls: type[Message], version: int) -> None:
    check_against_kafka_python(full_message(cls, version), version)


@every_shared_message_and_version
@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_message_is_the_same_on_both_sides(cls: type[Message], version: int, data: st.DataObject) -> None:
    check_against_kafka_python(data.draw(messages(cls, version)), version)


def test_what_kafka_python_leaves_unjudged_is_known() -> None:
    """A list that grows would mean that the comparison above quietly compares less."""
    assert UNKNOWN == [
        "ConsumerGroupDescribeRequest",
        "ConsumerGroupDescribeResponse",
        "ConsumerGroupHeartbeatRequest",
        "ConsumerGroupHeartbeatResponse",
        "CreateDelegationTokenRequest",
        "CreateDelegationTokenResponse",
        "DescribeDelegationTokenRequest",
        "DescribeDelegationTokenResponse",
        "EnvelopeRequest",
        "EnvelopeResponse",
        "ExpireDelegationTokenRequest",
        "ExpireDelegationTokenResponse",
        "RenewDelegationTokenRequest",
        "RenewDelegationTokenResponse",
        "UnregisterBrokerRequest",
        "UnregisterBrokerResponse",
    ]
    too_new = {(cls.__name__, version) for cls, version in CASES if cls.__name__ not in UNKNOWN}
    too_new -= {(cls.__name__, version) for cls, version in COMPARED}
    assert too_new <= {
        ("ApiVersionsRequest", 5),
        ("ApiVersionsResponse", 5),
        ("TxnOffsetCommitRequest", 6),
        ("TxnOffsetCommitResponse", 6),
        ("DeleteGroupsRequest", 3),
        ("DeleteGroupsResponse", 3),
    }
    assert len(COMPARED) >= 416
