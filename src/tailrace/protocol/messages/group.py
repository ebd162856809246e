"""Messages of the classic protocol, in which a member of the group computes the assignment."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, BYTES, INT16, INT32, STRING, array


class JoinGroupRequestProtocol(Message):
    """An assignment strategy that the member supports, in order of preference."""

    name: str = wire(STRING, "0+")
    metadata: bytes = wire(BYTES, "0+")


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Message):
    """Join a group, or its next generation."""

    group_id: str = wire(STRING, "0+")
    session_timeout_ms: int = wire(INT32, "0+")
    # the default means the session timeout
    rebalance_timeout_ms: int = wire(INT32, "1+", default=-1, ignorable=True)
    member_id: str = wire(STRING, "0+")
    group_instance_id: str | None = wire(STRING, "5+", nullable="5+", default=None)  # KIP-345: a static member
    protocol_type: str = wire(STRING, "0+")
    protocols: list[JoinGroupRequestProtocol] = wire(array(JoinGroupRequestProtocol), "0+")
    reason: str | None = wire(STRING, "8+", nullable="8+", default=None, ignorable=True)  # KIP-800


class JoinGroupResponseMember(Message):
    """A member with its metadata."""

    member_id: str = wire(STRING, "0+")
    group_instance_id: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = wire(BYTES, "0+")


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Message):
    """The new generation. Only its leader gets the members."""

    throttle_time_ms: int = wire(INT32, "2+", ignorable=True)
    error_code: int = wire(INT16, "0+")
    generation_id: int = wire(INT32, "0+", default=-1)
    protocol_type: str | None = wire(STRING, "7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = wire(STRING, "0+", nullable="7+")
    leader: str = wire(STRING, "0+")
    skip_assignment: bool = wire(BOOLEAN, "9+")  # KIP-814: a returning static leader keeps the assignment
    member_id: str = wire(STRING, "0+")
    members: list[JoinGroupResponseMember] = wire(array(JoinGroupResponseMember), "0+")


class SyncGroupRequestAssignment(Message):
    """The assignment of one member, computed by the group leader."""

    member_id: str = wire(STRING, "0+")
    assignment: bytes = wire(BYTES, "0+")


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Message):
    """Wait for the member's assignment. The group leader sends the assignments of all members."""

    group_id: str = wire(STRING, "0+")
    generation_id: int = wire(INT32, "0+")
    member_id: str = wire(STRING, "0+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    protocol_type: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)  # KIP-559
    protocol_name: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = wire(array(SyncGroupRequestAssignment), "0+")


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Message):
    """The assignment of this member."""

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
    """Whether the member is in the current generation."""

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16, "0+")


class LeaveGroupRequestMember(Message):
    """A member that leaves."""

    member_id: str = wire(STRING, "3+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    reason: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Message):
    """Leave a group. From version 3, an administrator can remove several members (KIP-345)."""

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
    """Whether the members were removed."""

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16, "0+")
    members: list[LeaveGroupResponseMember] = wire(array(LeaveGroupResponseMember), "3+")
