"""The messages of a classic group, as a member builds and reads them."""

from collections.abc import Iterable, Mapping, Sequence

from tailrace.client.fetch.setting import ConsumerSettings
from tailrace.client.group.assignor.assignor import Assignor, Claim, Owned, Racks
from tailrace.client.group.offset import Identity
from tailrace.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    decode_versioned,
    encode_assignments,
    encode_versioned,
    flatten,
    group_by_topic,
)
from tailrace.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

_SEVERAL_LEAVE_VERSION = 3


def build_join(
    settings: ConsumerSettings,
    identity: Identity,
    assignors: Sequence[Assignor],
    topics: Sequence[str],
    owned: Sequence[Owned],
    previous: Sequence[Owned],
) -> JoinGroupRequest:
    """Return the JoinGroup request; `previous` are the partitions of an eager member before it gave them up."""
    protocols = [
        JoinGroupRequestProtocol(
            name=assignor.name,
            metadata=encode_versioned(
                ConsumerProtocolSubscription(
                    topics=sorted(topics),
                    user_data=assignor.user_data(tuple(previous), identity.generation_id),
                    owned_partitions=group_by_topic(owned),
                    generation_id=identity.generation_id,
                    rack_id=settings.client_rack or None,
                )
            ),
        )
        for assignor in assignors
    ]
    return JoinGroupRequest(
        group_id=settings.group_id or "",
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=protocols,
    )


def build_sync(
    group_id: str, identity: Identity, joined: JoinGroupResponse, assignments: Mapping[str, bytes]
) -> SyncGroupRequest:
    """Return the SyncGroup request; the leader's carries the assignment of all members."""
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=joined.protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=data) for member_id, data in assignments.items()
        ],
    )


def build_leave(group_id: str, identity: Identity, version: int) -> LeaveGroupRequest:
    """Return the LeaveGroup request."""
    if version < _SEVERAL_LEAVE_VERSION:
        return LeaveGroupRequest(group_id=group_id, member_id=identity.member_id)
    member = LeaveGroupRequestMember(member_id=identity.member_id, reason="the consumer is being closed")
    return LeaveGroupRequest(group_id=group_id, members=[member])


class Lead:
    """The leader's view of a generation: its members and the assignor that they agreed on."""

    def __init__(self, joined: JoinGroupResponse, assignors: Iterable[Assignor]) -> None:
        self._assignor = next(assignor for assignor in assignors if assignor.name == joined.protocol_name)
        self._members = []
        for member in joined.members:
            found = decode_versioned(ConsumerProtocolSubscription, member.metadata)
            owned = tuple(flatten(found.owned_partitions))
            claim = Claim(found.user_data, owned, found.generation_id, found.rack_id)
            self._members.append(
                self._assignor.read_member(member.member_id, member.group_instance_id, frozenset(found.topics), claim)
            )

    @property
    def topics(self) -> frozenset[str]:
        """All topics that members subscribe to."""
        return frozenset[str]().union(*(member.topics for member in self._members))

    def assign(self, partition_counts: Mapping[str, int], racks: Racks) -> dict[str, bytes]:
        """Return the encoded assignment of each member."""
        return encode_assignments(self._assignor.assign(self._members, partition_counts, racks))
