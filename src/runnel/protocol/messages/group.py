"""Membership in classic groups, where the members themselves divide the work."""

from runnel.protocol.message import Message, message, wire
from runnel.protocol.primitive import BOOLEAN, BYTES, INT16, INT32, STRING, array


class JoinGroupRequestProtocol(Message):
    """A way of dividing the work that the member understands, the most liked first."""

    name: str = wire(STRING, "0+")
    metadata: bytes = wire(BYTES, "0+")


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Message):
    """Join a group, or take part in its next generation."""

    group_id: str = wire(STRING, "0+")
    session_timeout_ms: int = wire(INT32, "0+")
    # the default stands for the session timeout
    rebalance_timeout_ms: int = wire(INT32, "1+", default=-1, ignorable=True)
    member_id: str = wire(STRING, "0+")
    group_instance_id: str | None = wire(STRING, "5+", nullable="5+", default=None)  # KIP-345: a static member
    protocol_type: str = wire(STRING, "0+")
    protocols: list[JoinGroupRequestProtocol] = wire(array(JoinGroupRequestProtocol), "0+")
    reason: str | None = wire(STRING, "8+", nullable="8+", default=None, ignorable=True)  # KIP-800


class JoinGroupResponseMember(Message):
    """A member, with what it told about itself."""

    member_id: str = wire(STRING, "0+")
    group_instance_id: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = wire(BYTES, "0+")


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Message):
    """The new generation; only its leader sees the members."""

    throttle_time_ms: int = wire(INT32, "2+", ignorable=True)
    error_code: int = wire(INT16, "0+")
    generation_id: int = wire(INT32, "0+", default=-1)
    protocol_type: str | None = wire(STRING, "7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = wire(STRING, "0+", nullable="7+")
    leader: str = wire(STRING, "0+")
    skip_assignment: bool = wire(BOOLEAN, "9+")  # KIP-814: a returning static leader keeps what is assigned
    member_id: str = wire(STRING, "0+")
    members: list[JoinGroupResponseMember] = wire(array(JoinGroupResponseMember), "0+")


class SyncGroupRequestAssignment(Message):
    """What the leader gives to one member."""

    member_id: str = wire(STRING, "0+")
    assignment: bytes = wire(BYTES, "0+")


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Message):
    """Wait for one's assignment; the leader hands in everyone's."""

    group_id: str = wire(STRING, "0+")
    generation_id: int = wire(INT32, "0+")
    member_id: str = wire(STRING, "0+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    protocol_type: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)  # KIP-559
    protocol_name: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = wire(array(SyncGroupRequestAssignment), "0+")


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Message):
    """What this member is to do."""

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16, "0+")
    protocol_type: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = wire(BYTES, "0+")


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Message):
    """Stay a member, and learn whether a rebalance has begun."""

    group_id: str = wire(STRING, "0+")
    generation_id: int = wire(INT32, "0+")
    member_id: str = wire(STRING, "0+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Message):
    """Whether the member is still in step."""

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16, "0+")


class LeaveGroupRequestMember(Message):
    """A member that leaves."""

    member_id: str = wire(STRING, "3+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    reason: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Message):
    """Leave a group; from version 3 an administrator can make several members leave (KIP-345)."""

    group_id: str = wire(STRING, "0+")
    member_id: str = wire(STRING, "0-2")
    members: list[LeaveGroupRequestMember] = wire(array(LeaveGroupRequestMember), "3+")


class LeaveGroupResponseMember(Message):
    """The outcome for one member."""

    member_id: str = wire(STRING, "3+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+")
    error_code: int = wire(INT16, "3+")


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    """Whether the members left."""

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16, "0+")
    members: list[LeaveGroupResponseMember] = wire(array(LeaveGroupResponseMember), "3+")
