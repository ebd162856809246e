"""The coordinator of the groups whose records are in one partition of `__consumer_offsets`.

Requests, timers and records come in, decisions go out. Each kind of group has its own coordinator, and so
have the offsets; they share one map of groups, and this is where a request finds the one that it is for.
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from runnel.base.invariant import invariant
from runnel.machines.controller.image import ClusterImage
from runnel.machines.decision import Timer, Token
from runnel.machines.group import classic_coordinator, consumer_coordinator
from runnel.machines.group.classic_change import refuse_join
from runnel.machines.group.classic_coordinator import ClassicCoordinator
from runnel.machines.group.classic_group import ClassicGroup, ClassicState
from runnel.machines.group.classic_setting import ClassicGroupSetting
from runnel.machines.group.consumer_coordinator import ConsumerCoordinator
from runnel.machines.group.consumer_group import ConsumerGroup
from runnel.machines.group.consumer_setting import ConsumerGroupSetting
from runnel.machines.group.decision import Decision
from runnel.machines.group.group import NO_OFFSET, Caller, Group
from runnel.machines.group.group_description import describe_group, describe_unknown, list_group
from runnel.machines.group.offset_coordinator import OffsetCoordinator, OffsetSetting
from runnel.machines.log_record import Record
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.consumer_group import (
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupHeartbeatRequest,
)
from runnel.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from runnel.protocol.messages.group_admin import (
    DeleteGroupsResponse,
    DeleteGroupsResponseResult,
    DescribeGroupsResponseGroup,
    ListGroupsResponseGroup,
)
from runnel.protocol.messages.group_offset import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from runnel.protocol.messages.transaction import TxnOffsetCommitRequest
from runnel.records.batch import NO_PRODUCER_ID

EXPIRY = ("offset-expiry",)


class GroupCoordinator:
    """All groups of one partition of `__consumer_offsets`."""

    def __init__(
        self,
        classic: ClassicGroupSetting,
        offsets: OffsetSetting,
        new_uuid: Callable[[], str],
        image: ClusterImage | None = None,
        consumer: Callable[[str], ConsumerGroupSetting] = lambda _: ConsumerGroupSetting(),
    ) -> None:
        """`image` is the cluster, live; `consumer` gives the values that hold for a group of the new protocol."""
        self.groups: dict[str, Group] = {}
        self.classic = ClassicCoordinator(self.groups, classic, new_uuid)
        self.consumer = ConsumerCoordinator(self.groups, image or ClusterImage(), consumer, new_uuid, self.classic)
        self.offsets = OffsetCoordinator(self.groups, offsets)

    # Membership of classic groups.

    def decide_join(self, now_ms: int, token: Token, caller: Caller, request: JoinGroupRequest) -> Decision:
        """JoinGroup; a join that has to wait is answered by a later decision."""
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
        """SyncGroup; one that has to wait for the leader is answered by a later decision."""
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
        """Heartbeat."""
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
        """LeaveGroup, in the form of version 3 and later."""
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

    # Membership of groups of the new protocol.

    def decide_consumer_heartbeat(
        self, now_ms: int, token: Token, caller: Caller, request: ConsumerGroupHeartbeatRequest
    ) -> Decision:
        """ConsumerGroupHeartbeat; ApiError if it is refused."""
        return self.consumer.decide_heartbeat(now_ms, token, caller, request)

    def describe_consumer(self, group_ids: Iterable[str]) -> list[ConsumerGroupDescribeResponseGroup]:
        """ConsumerGroupDescribe."""
        return self.consumer.describe(group_ids)

    def on_topics(self, now_ms: int, *, created: bool) -> None:
        """Topics were created, changed or deleted."""
        self.consumer.on_topics(now_ms, created=created)

    # Offsets.

    def decide_commit(self, now_ms: int, token: Token, caller: Caller, request: OffsetCommitRequest) -> Decision:
        """OffsetCommit of topics that exist; ApiError if nothing of it may be committed."""
        decision = self.offsets.decide_commit(now_ms, token, caller, request)
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup) and group.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            # A member of the classic protocol that commits lives.
            change = self.classic.change(group, now_ms)
            change.restart_session(group.members[request.member_id])
            decision.timers += change.decision.timers
        return decision

    def decide_transactional_commit(
        self, now_ms: int, token: Token, caller: Caller, request: TxnOffsetCommitRequest
    ) -> Decision:
        """TxnOffsetCommit of topics that exist; ApiError if nothing of it may be committed."""
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return self.offsets.decide_transactional_commit(now_ms, token, caller, request)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool = False
    ) -> OffsetFetchResponseGroup:
        """OffsetFetch for one group; ApiError if the member may not read."""
        return self.offsets.fetch(request, require_stable=require_stable)

    def decide_offset_delete(self, token: Token, request: OffsetDeleteRequest) -> Decision:
        """OffsetDelete of topics that exist; ApiError if nothing of it may be deleted."""
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return self.offsets.decide_delete(token, request)

    def on_topics_deleted(self, deleted: Iterable[tuple[str, UUID]]) -> Decision:
        """Topics, by name and id, are gone and their offsets go too."""
        return self.offsets.forget_topics(deleted)

    # Groups seen from outside.

    def list(self, states: Iterable[str], types: Iterable[str]) -> list[ListGroupsResponseGroup]:
        """The groups in these states and of these types, in whatever case they are written; all if none is named."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.lower() for kind in types}
        return [
            list_group(group)
            for group in self.groups.values()
            if (not wanted_states or group.state_name.lower() in wanted_states)
            and (not wanted_types or group.group_type.lower() in wanted_types)
        ]

    def describe(self, group_id: str, version: int) -> DescribeGroupsResponseGroup:
        """A classic group in detail; one of another kind is not found."""
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return describe_group(group)
        return describe_unknown(group_id, version, is_other_kind=group is not None)

    def decide_delete(self, token: Token, group_ids: Iterable[str]) -> Decision:
        """DeleteGroups: those that have no members go, with their offsets."""
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

    # Time and the log.

    def on_timer(self, now_ms: int, key: tuple[str, ...]) -> Decision:
        """What was to happen at this time."""
        if key == EXPIRY:
            expired = self.offsets.expire(now_ms)
            return Decision(records=expired, timers=[self._next_expiry(now_ms)], is_atomic=False)
        if key[0] in consumer_coordinator.TIMERS:
            return self.consumer.on_timer(now_ms, key)
        invariant(key[0] in classic_coordinator.TIMERS, f"nobody has set the timer {key}")
        return self.classic.on_timer(now_ms, key)

    def on_loaded(self, now_ms: int) -> Decision:
        """The log has been replayed to its end: time begins."""
        decision = self.classic.on_loaded(now_ms)
        decision.timers += self.consumer.on_loaded(now_ms).timers
        decision.timers.append(self._next_expiry(now_ms))
        return decision

    def on_unloaded(self) -> Decision:
        """Another broker coordinates these groups from now on."""
        return self.classic.on_unloaded()

    def _next_expiry(self, now_ms: int) -> Timer:
        return Timer(EXPIRY, now_ms + self.offsets.setting.check_interval_ms)

    def replay_transaction_end(self, producer_id: int, *, is_commit: bool) -> None:
        """Take in the marker that ends a producer's transaction, live or from the log."""
        self.offsets.replay_transaction_end(producer_id, is_commit=is_commit)

    def replay(self, record: Record, offset: int = NO_OFFSET, producer_id: int = NO_PRODUCER_ID) -> None:
        """Take in one record, live or from the log, where it stands and in whose transaction."""
        if not self.offsets.replay(record, offset, producer_id) and not self.consumer.replay(record):
            self.classic.replay(record)
