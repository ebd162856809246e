"""The topics in what consumers say about themselves when they join a classic group.

The bytes are the members' own affair, but Kafka looks into those of protocol type `consumer`, so that offsets of
topics that nobody reads any more can go. Every version begins as version 0 does: a version, and the topics.
"""

from collections.abc import Iterable

from runnel.protocol import codec
from runnel.protocol.errors import RemoteProtocolError
from runnel.protocol.message import Message, message, wire
from runnel.protocol.primitive import BYTES, INT16, STRING, array

CONSUMER_PROTOCOL_TYPE = "consumer"


@message(versions="0")
class ConsumerSubscriptionStart(Message):
    """The beginning of a subscription, the same in all of its versions."""

    version: int = wire(INT16, "0")
    topics: list[str] = wire(array(STRING), "0")
    user_data: bytes | None = wire(BYTES, "0", nullable="0")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that these members read, or None if one cannot be understood."""
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            start, _ = codec.decode(ConsumerSubscriptionStart, subscription, 0)
        except RemoteProtocolError:
            return None
        topics.update(start.topics)
    return frozenset(topics)
