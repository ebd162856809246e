"""The topics in the subscriptions of consumers that use the classic protocol.

The coordinator does not need to understand the metadata of members. Like Kafka, it reads the metadata of protocol type
`consumer` all the same, so that the offsets of topics to which no member is subscribed can expire. All versions of a
subscription begin as version 0 does: with the version and the topics.
"""

from collections.abc import Iterable

from tailrace.base.limits import REQUEST_ELEMENTS_MAX
from tailrace.protocol import codec
from tailrace.protocol.errors import RemoteProtocolError
from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BYTES, INT16, STRING, array

CONSUMER_PROTOCOL_TYPE = "consumer"


@message(versions="0")
class ConsumerSubscriptionStart(Message):
    """The start of a subscription, which is the same in all versions."""

    version: int = wire(INT16, "0")
    topics: list[str] = wire(array(STRING), "0")
    user_data: bytes | None = wire(BYTES, "0", nullable="0")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all subscriptions, or None if one of them cannot be decoded."""
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            start, _ = codec.decode(ConsumerSubscriptionStart, subscription, 0, 0, REQUEST_ELEMENTS_MAX)
        except RemoteProtocolError:
            return None
        topics.update(start.topics)
    return frozenset(topics)
