"""The metadata of members that the coordinator decodes itself: what it does with far too many elements."""

import pytest

from tailrace.base.limits import REQUEST_ELEMENTS_MAX
from tailrace.machines.group.classic.subscription import subscribed_topics
from tailrace.machines.group.embedded_protocol import decode_assignment, decode_subscription
from tailrace.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_versioned,
)
from tailrace.protocol.errors import RemoteProtocolError

MANY = REQUEST_ELEMENTS_MAX + 1


def test_topics_are_not_read_from_a_subscription_with_too_many() -> None:
    """4 MB of topic names took 0.8 s of the event loop, as only a request's own elements were counted."""
    usual, huge = (
        encode_versioned(ConsumerProtocolSubscription(topics=topics), version=0) for topics in (["t"], [""] * MANY)
    )
    assert subscribed_topics([usual]) == frozenset({"t"})
    assert subscribed_topics([usual, huge]) is None
    assert decode_subscription(usual).topics == ["t"]
    with pytest.raises(RemoteProtocolError):
        decode_subscription(huge)


def test_an_assignment_with_too_many_partitions_is_not_read() -> None:
    partitions = ConsumerProtocolTopicPartition(topic="t", partitions=[0] * MANY)
    with pytest.raises(RemoteProtocolError):
        decode_assignment(encode_versioned(ConsumerProtocolAssignment(assigned_partitions=[partitions])))
