"""Classic groups in the replies of ListGroups and DescribeGroups."""

from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.classic.state import DEAD, STABLE
from tailrace.machines.group.group import Group
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.group_admin import (
    DescribeGroupsResponseGroup,
    DescribeGroupsResponseMember,
    ListGroupsResponseGroup,
)

FIRST_VERSION_WITH_NOT_FOUND_ERROR = 6


def list_group(group: Group) -> ListGroupsResponseGroup:
    """Build the entry of a group of either protocol in ListGroups."""
    return ListGroupsResponseGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_name,
        group_state=group.state_name,
        group_type=group.group_type.value,
    )


def describe_group(group: ClassicGroup) -> DescribeGroupsResponseGroup:
    """Describe a classic group; only a stable group shows its protocol and the metadata of its members."""
    is_stable = group.state is STABLE
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


def describe_unknown(group_id: str, version: int, *, is_consumer_group: bool) -> DescribeGroupsResponseGroup:
    """Describe a group that does not exist or is not classic: Dead, and from version 6 on an error."""
    unknown = DescribeGroupsResponseGroup(group_id=group_id, group_state=DEAD.value)
    if version >= FIRST_VERSION_WITH_NOT_FOUND_ERROR:
        reason = "is not a classic group" if is_consumer_group else "not found"
        # ApiError truncates a group id that is too long.
        error = ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
        unknown.error_code, unknown.error_message = error.code, error.message
    return unknown
