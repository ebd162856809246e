"""The record of a classic group, which holds its whole generation."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BYTES, INT32, INT64, STRING, array


@message(versions="0")
class GroupMetadataKey(Message):
    """The id of a classic group."""

    group: str = wire(STRING, "0")


class GroupMetadataMember(Message):
    """A member with its subscription and its assignment, both in the format of the members."""

    member_id: str = wire(STRING, "0+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None, ignorable=True)
    client_id: str = wire(STRING, "0+")
    client_host: str = wire(STRING, "0+")
    rebalance_timeout: int = wire(INT32, "1+", default=-1, ignorable=True)
    session_timeout: int = wire(INT32, "0+")
    subscription: bytes = wire(BYTES, "0+")
    assignment: bytes = wire(BYTES, "0+")


@message(versions="0-4", flexible="4+")
class GroupMetadataValue(Message):
    """A generation of a classic group."""

    protocol_type: str = wire(STRING, "0+")
    generation: int = wire(INT32, "0+")
    protocol: str | None = wire(STRING, "0+", nullable="0+")
    leader: str | None = wire(STRING, "0+", nullable="0+")
    current_state_timestamp: int = wire(INT64, "2+", default=-1, ignorable=True)
    members: list[GroupMetadataMember] = wire(array(GroupMetadataMember), "0+")
