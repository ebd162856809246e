"""Messages that list, describe and delete groups."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, BYTES, INT16, INT32, OPERATIONS_UNASKED, STRING, array


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Message):
    """List the groups that this broker coordinates."""

    states_filter: list[str] = wire(array(STRING), "4+")  # KIP-518; empty for all
    types_filter: list[str] = wire(array(STRING), "5+")  # KIP-848; empty for all


class ListGroupsResponseGroup(Message):
    """A group in a listing."""

    group_id: str = wire(STRING, "0+")
    protocol_type: str = wire(STRING, "0+")
    group_state: str = wire(STRING, "4+", ignorable=True)
    group_type: str = wire(STRING, "5+", ignorable=True)


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Message):
    """The groups of this broker."""

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16, "0+")
    groups: list[ListGroupsResponseGroup] = wire(array(ListGroupsResponseGroup), "0+")


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Message):
    """Request the members of classic groups."""

    groups: list[str] = wire(array(STRING), "0+")
    include_authorized_operations: bool = wire(BOOLEAN, "3+")


class DescribeGroupsResponseMember(Message):
    """A member and its assignment."""

    member_id: str = wire(STRING, "0+")
    group_instance_id: str | None = wire(STRING, "4+", nullable="4+", default=None, ignorable=True)
    client_id: str = wire(STRING, "0+")
    client_host: str = wire(STRING, "0+")
    member_metadata: bytes = wire(BYTES, "0+")
    member_assignment: bytes = wire(BYTES, "0+")


class DescribeGroupsResponseGroup(Message):
    """A group, its state and its members."""

    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "6+", nullable="6+", default=None)
    group_id: str = wire(STRING, "0+")
    group_state: str = wire(STRING, "0+")
    protocol_type: str = wire(STRING, "0+")
    protocol_data: str = wire(STRING, "0+")
    members: list[DescribeGroupsResponseMember] = wire(array(DescribeGroupsResponseMember), "0+")
    authorized_operations: int = wire(INT32, "3+", default=OPERATIONS_UNASKED)


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Message):
    """The described groups."""

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    groups: list[DescribeGroupsResponseGroup] = wire(array(DescribeGroupsResponseGroup), "0+")


@message(key=42, versions="0-3", flexible="2+")
class DeleteGroupsRequest(Message):
    """Delete groups that have no members."""

    groups_names: list[str] = wire(array(STRING), "0+")


class DeleteGroupsResponseResult(Message):
    """The outcome for one group."""

    group_id: str = wire(STRING, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "3+", nullable="3+", default=None, ignorable=True)


@message(key=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse(Message):
    """Whether each group was deleted."""

    throttle_time_ms: int = wire(INT32, "0+")
    results: list[DeleteGroupsResponseResult] = wire(array(DeleteGroupsResponseResult), "0+")
