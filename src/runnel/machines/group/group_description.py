"""Classic groups as ListGroups and DescribeGroups show them."""

from runnel.machines.group.classic_group import ClassicGroup, ClassicState
from runnel.machines.group.group import Group
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.group_admin import (
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
    ListGroupsResponseGroup,
)

FIRST_VERSION_THAT_MISSES_GROUPS = 6


def list_group(group: Group) -> ListGroupsResponseGroup:
    """A group of any kind in a listing."""
    return ListGroupsResponseGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_name,
        group_state=group.state_name,
        group_type=group.group_type.value,
    )


def describe_group(group: ClassicGroup) -> DescribeGroupsResponseGroup:
    """A classic group; what its members said of themselves is shown once they agree on a protocol."""
    is_stable = group.state is ClassicState.STABLE
    members = [
        DescribeGroupsResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=(member.metadata(group.protocol) or b"") if is_stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribeGroupsResponseGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_name,
        protocol_data=(group.protocol or "") if is_stable else "",
        members=members,
    )


def describe_unknown(group_id: str, version: int, *, is_other_kind: bool) -> DescribeGroupsResponseGroup:
    """A group that is not there, or is not classic: dead to older clients, an error to newer ones."""
    unknown = DescribeGroupsResponseGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
    if version >= FIRST_VERSION_THAT_MISSES_GROUPS:
        reason = "is not a classic group" if is_other_kind else "not found"
        error = ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}."
        )  # which cuts a name that is too long
        unknown.error_code, unknown.error_message = error.code, error.message
    return unknown
