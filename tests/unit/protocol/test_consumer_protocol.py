"""The values inside JoinGroup and SyncGroup, against bytes written out by hand from Kafka's schemas."""

import pytest

from tailrace.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_versioned,
    encode_assignments,
    encode_versioned,
    flatten,
    group_by_topic,
)
from tailrace.protocol.errors import RemoteProtocolError

TOPICS = b"\0\0\0\2\0\1a\0\2bc"
OWNED = b"\0\0\0\1\0\1a\0\0\0\2\0\0\0\0\0\0\0\3"

SUBSCRIPTIONS = {
    0: b"\0\0" + TOPICS + b"\0\0\0\2xy",
    1: b"\0\1" + TOPICS + b"\0\0\0\2xy" + OWNED,
    2: b"\0\2" + TOPICS + b"\0\0\0\2xy" + OWNED + b"\0\0\0\7",
    3: b"\0\3" + TOPICS + b"\0\0\0\2xy" + OWNED + b"\0\0\0\7" + b"\0\2r1",
}


def full() -> ConsumerProtocolSubscription:
    return ConsumerProtocolSubscription(
        topics=["a", "bc"],
        user_data=b"xy",
        owned_partitions=group_by_topic([("a", 3), ("a", 0)]),
        generation_id=7,
        rack_id="r1",
    )


@pytest.mark.parametrize("version", SUBSCRIPTIONS)
def test_a_subscription_is_kafkas_bytes(version: int) -> None:
    data = SUBSCRIPTIONS[version]
    assert encode_versioned(full(), version) == data
    found = decode_versioned(ConsumerProtocolSubscription, data)
    assert (found.topics, found.user_data) == (["a", "bc"], b"xy")
    assert flatten(found.owned_partitions) == ([("a", 0), ("a", 3)] if version >= 1 else [])
    assert found.generation_id == (7 if version >= 2 else -1)
    assert found.rack_id == ("r1" if version >= 3 else None)


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    data = b"\0\x63" + SUBSCRIPTIONS[3][2:] + b"what is added later"
    assert decode_versioned(ConsumerProtocolSubscription, data) == full()


def test_an_assignment_is_kafkas_bytes() -> None:
    data = encode_assignments({"m": [("a", 3), ("a", 0)]})["m"]
    assert data == b"\0\3" + OWNED + b"\xff\xff\xff\xff"
    assert decode_assignment(data) == [("a", 0), ("a", 3)]
    assert decode_assignment(b"") == []


@pytest.mark.parametrize("kind", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
def test_every_prefix_is_refused(kind: type) -> None:
    data = SUBSCRIPTIONS[3] if kind is ConsumerProtocolSubscription else encode_assignments({"m": [("a", 3)]})["m"]
    for length in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            decode_versioned(kind, data[:length])
