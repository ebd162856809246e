"""The coordinator of the groups whose records are in one partition of `__consumer_offsets`.

Requests, timers and records come in, decisions go out. There is one coordinator for each protocol and one
for offsets. They share one map of groups, and this module hands each request to the right one.
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from tailrace.base.invariant import invariant
from tailrace.base.sentinel import NO_OFFSET
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.decision import Timer, Token
from tailrace.machines.group.classic import coordinator as classic_coordinator
from tailrace.machines.group.classic.change import refuse_join
from tailrace.machines.group.classic.coordinator import ClassicCoordinator
from tailrace.machines.group.classic.description import describe_group, describe_unknown, list_group
from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.classic.setting import ClassicGroupSetting
from tailrace.machines.group.classic.state import PREPARING_REBALANCE, STABLE
from tailrace.machines.group.consumer import coordinator as consumer_coordinator
from tailrace.machines.group.consumer.coordinator import ConsumerCoordinator
from tailrace.machines.group.consumer.group import ConsumerGroup
from tailrace.machines.group.consumer.setting import ConsumerGroupSetting
from tailrace.machines.group.decision import Decision
from tailrace.machines.group.group import Caller, Group
from tailrace.machines.group.offset.coordinator import OffsetCoordinator, OffsetSetting
from tailrace.machines.log_record import Record
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupHeartbeatRequest,
)
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tailrace.protocol.messages.group_admin import (
    DeleteGroupsResponse,
    DeleteGroupsResponseResult,
    DescribeGroupsResponseGroup,
    ListGroupsResponseGroup,
)
from tailrace.protocol.messages.group_offset import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from tailrace.protocol.messages.transaction import TxnOffsetCommitRequest
from tailrace.records.batch import NO_PRODUCER_ID

EXPIRY = ("offset-expiry",)


class GroupCoordinator:
    """The groups of one partition of `__consumer_offsets`."""

    def __init__(
        self,
        classic: ClassicGroupSetting,
        offsets: OffsetSetting,
        new_uuid: Callable[[], str],
        image: ClusterImage | None = None,
        consumer: Callable[[str], ConsumerGroupSetting] = lambda _: ConsumerGroupSetting(),
    ) -> None:
        """`image` is the live image of the cluster; `consumer` gives the configs of a consumer group."""
        self.groups: dict[str, Group] = {}
        self.classic = ClassicCoordinator(self.groups, classic, new_uuid)
        self.consumer = ConsumerCoordinator(self.groups, image or ClusterImage(), consumer, new_uuid, self.classic)
        self.offsets = OffsetCoordinator(self.groups, offsets)

    # Members of the classic protocol.

    def decide_join(self, now_ms: int, token: Token, caller: Caller, request: JoinGroupRequest) -> Decision:
        """Decide JoinGroup; a later decision answers a join that has to wait."""
        if not request.group_id:
            return Decision().reply(token, refuse_join(ErrorCode.INVALID_GROUP_ID, request.member_id))
        group = self.groups.get(request.group_id)
        try:
            if isinstance(group, ConsumerGroup):
                return self.consumer.decide_classic_join(now_ms, token, caller, group, request)
            return self.classic.decide_join(now_ms, token, caller, request)
        except ApiError as error:
            return Decision().reply(token, refuse_join(error.code, ""))

    def decide_sync(self, now_ms: int, token: Token, request: SyncGroupRequest) -> Decision:
        """Decide SyncGroup; a later decision answers a sync that has to wait for the leader."""
        error = ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return self.classic.decide_sync(now_ms, token, group, request)
        try:
            if isinstance(group, ConsumerGroup):
                return self.consumer.decide_classic_sync(now_ms, token, group, request)
        except ApiError as refusal:
            error = refusal.code
        return Decision().reply(token, SyncGroupResponse(error_code=error))

    def decide_heartbeat(self, now_ms: int, token: Token, request: HeartbeatRequest) -> Decision:
        """Decide Heartbeat."""
        error = ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return self.classic.decide_heartbeat(now_ms, token, group, request)
        try:
            if isinstance(group, ConsumerGroup):
                return self.consumer.decide_classic_heartbeat(now_ms, token, group, request)
        except ApiError as refusal:
            error = refusal.code
        return Decision().reply(token, HeartbeatResponse(error_code=error))

    def decide_leave(self, now_ms: int, token: Token, request: LeaveGroupRequest) -> Decision:
        """Decide LeaveGroup, in the form of version 3 and later."""
        if not request.group_id:
            return Decision().reply(token, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return self.classic.decide_leave(now_ms, token, group, request)
        if isinstance(group, ConsumerGroup):
            return self.consumer.decide_classic_leave(now_ms, token, group, request)
        unknown = [
            LeaveGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID,
            )
            for member in request.members
        ]
        return Decision().reply(token, LeaveGroupResponse(members=unknown))

    # Members of the consumer protocol.

    def decide_consumer_heartbeat(
        self, now_ms: int, token: Token, caller: Caller, request: ConsumerGroupHeartbeatRequest
    ) -> Decision:
        """Decide ConsumerGroupHeartbeat; raise ApiError to refuse it."""
        return self.consumer.decide_heartbeat(now_ms, token, caller, request)

    def describe_consumer(self, group_ids: Iterable[str]) -> list[ConsumerGroupDescribeResponseGroup]:
        """Answer ConsumerGroupDescribe."""
        return self.consumer.describe(group_ids)

    def on_topics(self, now_ms: int, *, created: bool) -> None:
        """Note that topics were created, changed or deleted."""
        self.consumer.on_topics(now_ms, created=created)

    # Offsets.

    def decide_commit(self, now_ms: int, token: Token, caller: Caller, request: OffsetCommitRequest) -> Decision:
        """Decide OffsetCommit for topics that exist; raise ApiError to refuse the whole request."""
        decision = self.offsets.decide_commit(now_ms, token, caller, request)
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup) and group.state in (STABLE, PREPARING_REBALANCE):
            # A commit restarts the session of a member of the classic protocol.
            change = self.classic.change(group, now_ms)
            change.restart_session(group.members[request.member_id])
            decision.timers += change.decision.timers
        return decision

    def decide_transactional_commit(
        self, now_ms: int, token: Token, caller: Caller, request: TxnOffsetCommitRequest
    ) -> Decision:
        """Decide TxnOffsetCommit for topics that exist; raise ApiError to refuse the whole request."""
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return self.offsets.decide_transactional_commit(now_ms, token, caller, request)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool = False
    ) -> OffsetFetchResponseGroup:
        """Answer OffsetFetch for one group; raise ApiError if the member may not fetch offsets."""
        return self.offsets.fetch(request, require_stable=require_stable)

    def decide_offset_delete(self, token: Token, request: OffsetDeleteRequest) -> Decision:
        """Decide OffsetDelete for topics that exist; raise ApiError to refuse the whole request."""
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return self.offsets.decide_delete(token, request)

    def on_topics_deleted(self, deleted: Iterable[tuple[str, UUID]]) -> Decision:
        """Delete the offsets of deleted topics, given by name and id."""
        return self.offsets.forget_topics(deleted)

    # Administration.

    def list(self, states: Iterable[str], types: Iterable[str]) -> list[ListGroupsResponseGroup]:
        """List the groups in these states and of these types, ignoring case; an empty filter passes every group."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        return [
            list_group(group)
            for group in self.groups.values()
            if (not wanted_states or group.state_name.lower() in wanted_states)
            and (not wanted_types or group.group_type.lower() in wanted_types)
        ]

    def describe(self, group_id: str, version: int) -> DescribeGroupsResponseGroup:
        """Describe a classic group; a group of the consumer protocol is not found."""
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return describe_group(group)
        return describe_unknown(group_id, version, is_consumer_group=group is not None)

    def decide_delete(self, token: Token, group_ids: Iterable[str]) -> Decision:
        """Decide DeleteGroups: delete the groups that have no members, with their offsets."""
        decision = Decision()
        results = []
        for group_id in group_ids:
            group = self.groups.get(group_id)
            error = ErrorCode.NONE
            try:
                if group is None:
                    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
                group.check_delete()
                decision.records += self.offsets.tombstones(group_id) + group.tombstones()
            except ApiError as refusal:
                error = refusal.code
            results.append(DeleteGroupsResponseResult(group_id=group_id, error_code=error))
        return decision.reply(token, DeleteGroupsResponse(results=results))

    # Timers and the log.

    def on_timer(self, now_ms: int, key: tuple[str, ...]) -> Decision:
        """Decide what the end of a timer changes."""
        if key == EXPIRY:
            expired = self.offsets.expire(now_ms)
            return Decision(records=expired, timers=[self._next_expiry(now_ms)], is_atomic=False)
        if key[0] in consumer_coordinator.TIMERS:
            return self.consumer.on_timer(now_ms, key)
        invariant(key[0] in classic_coordinator.TIMERS, f"no coordinator sets the timer {key}")
        return self.classic.on_timer(now_ms, key)

    def on_loaded(self, now_ms: int) -> Decision:
        """Start the timers of all groups, because the log has been replayed to its end."""
        decision = self.classic.on_loaded(now_ms)
        decision.timers += self.consumer.on_loaded(now_ms).timers
        decision.timers.append(self._next_expiry(now_ms))
        return decision

    def on_unloaded(self) -> Decision:
        """Refuse every request that waits: another broker is the coordinator now."""
        return self.classic.on_unloaded()

    def _next_expiry(self, now_ms: int) -> Timer:
        return Timer(EXPIRY, now_ms + self.offsets.setting.check_interval_ms)

    def replay_transaction_end(self, producer_id: int, *, is_commit: bool) -> None:
        """Replay the marker that ends the transaction of a producer, live or from the log."""
        self.offsets.replay_transaction_end(producer_id, is_commit=is_commit)

    def replay(self, record: Record, offset: int = NO_OFFSET, producer_id: int = NO_PRODUCER_ID) -> None:
        """Replay one record, live or from the log, with its offset and the producer of its transaction."""
        is_known = (
            self.offsets.replay(record, offset, producer_id)
            or self.consumer.replay(record)
            or self.classic.replay(record)
        )
        invariant(is_known, f"no coordinator replays {type(record.key).__name__}")
