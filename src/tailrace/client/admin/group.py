"""The admin calls for groups and their committed offsets.

Each coordinator knows only its own groups, so listing asks every broker and the other calls ask the
group's coordinator. If a call names several groups, each has its own outcome.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tailrace.client.cluster import Cluster
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.group.coordinator import Coordinator
from tailrace.client.group.offset import NO_MEMBER, OffsetAndMetadata, commit_offsets, delete_offsets, fetch_offsets
from tailrace.client.offset import LATEST, list_offsets
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseGroup,
)
from tailrace.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

T = TypeVar("T")
Target = TypeVar("Target", bound=tuple[str, int])

CLASSIC = "classic"
CONSUMER = "consumer"
DEAD = "Dead"
_STATES_VERSION = 4
_TYPES_VERSION = 5
_NOT_THIS_KIND = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in a listing; state and type are empty if the broker is too old to send them."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class GroupMemberDescription:
    """A member and its partitions; `target` is the assignment that it is moving to, if that differs."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members."""

    group_id: str
    group_type: str
    state: str
    assignor: str
    coordinator_id: int
    members: tuple[GroupMemberDescription, ...]
    protocol_type: str = PROTOCOL_TYPE
    epoch: int = -1

    @property
    def owners(self) -> dict[TopicPartition, GroupMemberDescription]:
        """Return the member that reads each partition."""
        return {target: member for member in self.members for target in member.assignment}


class PartitionLag(NamedTuple):
    """The lag of a group in one partition; None if it has committed nothing or the end is unknown."""

    committed: OffsetAndMetadata | None
    end_offset: int | None

    @property
    def lag(self) -> int | None:
        """The number of offsets between the commit and the end."""
        if self.committed is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.committed.offset)


class GroupAdmin:
    """The admin calls for groups."""

    _cluster: Cluster
    _timeout_ms: int

    async def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """Return all groups by name, or only those in some states ("Stable") and of some types ("consumer")."""
        wanted_states, wanted_types = list(states), list(types)
        await self._cluster.refresh([])
        found: dict[str, ListedGroup] = {}
        for node_id in self._cluster.view.nodes:

            async def ask(node_id: int = node_id) -> ListGroupsResponse:
                connection = await self._cluster.connection(node_id)
                version = connection.version(ListGroupsRequest)
                _check_filter("states", wanted_states, version, _STATES_VERSION)
                _check_filter("types", wanted_types, version, _TYPES_VERSION)
                request = ListGroupsRequest(states_filter=wanted_states, types_filter=wanted_types)
                reply = await connection.request(request, ListGroupsResponse)
                if reply.error_code:
                    raise ApiError(ErrorCode(reply.error_code), f"listing the groups of broker {node_id}")
                return reply

            for group in (await self._cluster.retry(ask, timeout_ms=self._timeout_ms)).groups:
                found[group.group_id] = ListedGroup(
                    group.group_id, group.protocol_type, group.group_state, group.group_type.lower()
                )
        return [found[group_id] for group_id in sorted(found)]

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | ApiError]:
        """Return groups of both protocols with their members."""
        return {group_id: await self._outcome(group_id, self._describe) for group_id in dict.fromkeys(group_ids)}

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, ApiError | None]:
        """Delete groups that have no members, with their committed offsets."""
        return {group_id: await self._outcome(group_id, self._delete) for group_id in dict.fromkeys(group_ids)}

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group, for these partitions or for all that have one."""
        targets = None if partitions is None else [TopicPartition(*target) for target in partitions]
        return await self._retry(group_id, lambda coordinator: fetch_offsets(coordinator, targets))

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[Target, int | OffsetAndMetadata]
    ) -> dict[TopicPartition, ApiError | None]:
        """Set the committed offsets of a group that has no members."""
        wanted = {
            TopicPartition(*target): offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
            for target, offset in offsets.items()
        }

        async def alter(coordinator: Coordinator) -> dict[TopicPartition, ErrorCode]:
            codes = await commit_offsets(coordinator, NO_MEMBER, wanted)
            for code in codes.values():
                if code.retriable and code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    coordinator.check(code, "altering the offsets of")
            return codes

        codes = await self._retry(group_id, alter)
        return {target: _alter_error(group_id, target, code) for target, code in codes.items()}

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, ApiError | None]:
        """Delete the committed offsets of partitions whose topics no member of the group reads."""
        targets = [TopicPartition(*target) for target in partitions]
        return await self._retry(group_id, lambda coordinator: delete_offsets(coordinator, targets))

    async def group_lag(
        self, group_id: str, partitions: Iterable[tuple[str, int]] = ()
    ) -> dict[TopicPartition, PartitionLag]:
        """Return the lag of a group in the partitions that it has committed and in those that are named."""
        committed = await self.list_group_offsets(group_id)
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(committed.keys() | {TopicPartition(*target) for target in partitions}):
            by_topic.setdefault(topic, []).append(partition)
        found: dict[TopicPartition, PartitionLag] = {}
        for topic, numbers in by_topic.items():
            ends = await self._ends(topic, numbers)
            for number in numbers:
                target = TopicPartition(topic, number)
                found[target] = PartitionLag(committed.get(target), ends.get(number))
        return found

    # --- inside

    async def _ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the end offsets of partitions; none for a topic that was deleted."""
        try:
            asked = dict.fromkeys(partitions, LATEST)
            ends = await list_offsets(self._cluster, topic, asked, Isolation.READ_UNCOMMITTED)
        except ApiError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return {}
            raise
        return {partition: at.offset for partition, at in ends.items()}

    async def _retry(self, group_id: str, action: Callable[[Coordinator], Awaitable[T]]) -> T:
        coordinator = Coordinator(self._cluster, group_id)
        return await coordinator.retry(lambda: action(coordinator), timeout_ms=self._timeout_ms)

    async def _outcome(self, group_id: str, action: Callable[[Coordinator], Awaitable[T]]) -> T | ApiError:
        try:
            return await self._retry(group_id, action)
        except ApiError as error:
            return error

    async def _delete(self, coordinator: Coordinator) -> None:
        request = DeleteGroupsRequest(groups_names=[coordinator.group_id])
        reply = await coordinator.request(request, DeleteGroupsResponse)
        for result in reply.results:
            if result.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                raise _no_such_group(coordinator)
            if result.error_code == ErrorCode.NON_EMPTY_GROUP:
                text = f"group {coordinator.group_id} has active members; stop them before deleting the group"
                raise ApiError(ErrorCode.NON_EMPTY_GROUP, text)
            coordinator.check(result.error_code, "deleting")

    async def _describe(self, coordinator: Coordinator) -> GroupDescription:
        try:
            return await self._describe_consumer(coordinator)
        except ApiError as error:
            if error.code not in _NOT_THIS_KIND:
                raise
        return await self._describe_classic(coordinator)

    async def _describe_consumer(self, coordinator: Coordinator) -> GroupDescription:
        request = ConsumerGroupDescribeRequest(group_ids=[coordinator.group_id])
        (group,) = (await coordinator.request(request, ConsumerGroupDescribeResponse)).groups
        coordinator.check(group.error_code, "describing")
        return _read_consumer(group, await coordinator.node_id())

    async def _describe_classic(self, coordinator: Coordinator) -> GroupDescription:
        request = DescribeGroupsRequest(groups=[coordinator.group_id])
        (group,) = (await coordinator.request(request, DescribeGroupsResponse)).groups
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or group.group_state == DEAD:  # the answer of older brokers
            raise _no_such_group(coordinator)
        coordinator.check(group.error_code, "describing")
        return _read_classic(group, await coordinator.node_id())


def _no_such_group(coordinator: Coordinator) -> ApiError:
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {coordinator.group_id}")


def _check_filter(name: str, wanted: list[str], version: int, version_min: int) -> None:
    if wanted and version < version_min:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"this broker cannot list groups by {name}")


def _alter_error(group_id: str, target: TopicPartition, code: ErrorCode) -> ApiError | None:
    if code is ErrorCode.NONE:
        return None
    if code is ErrorCode.UNKNOWN_MEMBER_ID:
        return ApiError(code, f"group {group_id} has active members; stop them before setting its offsets")
    return ApiError(code, f"setting the offset of {target} in group {group_id}")


def _read_classic(group: DescribeGroupsResponseGroup, coordinator_id: int) -> GroupDescription:
    members = []
    for member in group.members:
        try:
            assigned = decode_assignment(member.member_assignment) if group.protocol_type == PROTOCOL_TYPE else []
        except RemoteProtocolError:
            assigned = []  # another protocol type, such as connect
        targets = tuple(TopicPartition(*target) for target in assigned)
        members.append(
            GroupMemberDescription(
                member.member_id, member.group_instance_id, member.client_id, member.client_host, targets, targets
            )
        )
    return GroupDescription(
        group.group_id,
        CLASSIC,
        group.group_state,
        group.protocol_data,
        coordinator_id,
        tuple(members),
        group.protocol_type,
    )


def _read_consumer(group: ConsumerGroupDescribeResponseGroup, coordinator_id: int) -> GroupDescription:
    members = tuple(
        GroupMemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            _flatten(member.assignment),
            _flatten(member.target_assignment),
        )
        for member in group.members
    )
    return GroupDescription(
        group.group_id,
        CONSUMER,
        group.group_state,
        group.assignor_name,
        coordinator_id,
        members,
        epoch=group.group_epoch,
    )


def _flatten(assignment: ConsumerGroupDescribeResponseAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )
