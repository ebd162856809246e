"""The consumer groups of one coordinator: requests, timers and records in, decisions out."""

from collections.abc import Callable, Iterable, MutableMapping

from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.decision import Timer, Token
from tailrace.machines.group.classic.change import ClassicChange, refuse_join
from tailrace.machines.group.classic.coordinator import ClassicCoordinator
from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.classic.rebalance import prepare_rebalance
from tailrace.machines.group.classic.state import STABLE
from tailrace.machines.group.consumer import classic_member as classic
from tailrace.machines.group.consumer.change import JOIN, REBALANCE, REGEX, SESSION, SYNC, Change
from tailrace.machines.group.consumer.description import describe
from tailrace.machines.group.consumer.group import ConsumerGroup
from tailrace.machines.group.consumer.heartbeat import check_heartbeat, heartbeat
from tailrace.machines.group.consumer.member import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
)
from tailrace.machines.group.consumer.membership import known_instance, leave_temporarily, remove_members, watch
from tailrace.machines.group.consumer.replay import replay
from tailrace.machines.group.consumer.setting import ConsumerGroupSetting
from tailrace.machines.group.consumer.subscription import resolve_regexes
from tailrace.machines.group.decision import Decision
from tailrace.machines.group.group import Caller, Group
from tailrace.machines.group.migration import (
    check_upgrade,
    downgraded,
    may_downgrade,
    refuse_waiting,
    upgraded,
    write_upgrade,
)
from tailrace.machines.log_record import Record
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

TIMERS = (SESSION, REBALANCE, JOIN, SYNC, REGEX)


class ConsumerCoordinator:
    """Decides for the consumer groups among `groups`, which hold the classic groups too.

    `setting` gives the configs of a group; `new_member_id` makes an id for a member that has none.
    """

    def __init__(
        self,
        groups: MutableMapping[str, Group],
        image: ClusterImage,
        setting: Callable[[str], ConsumerGroupSetting],
        new_member_id: Callable[[], str],
        classic: ClassicCoordinator,
    ) -> None:
        self.groups = groups
        self.image = image
        self.setting = setting
        self.new_member_id = new_member_id
        self.classic = classic
        self.topics_created_ms = 0
        self.topics_version = 0

    # Requests.

    def decide_heartbeat(
        self,
        now_ms: int,
        token: Token,
        caller: Caller,
        request: ConsumerGroupHeartbeatRequest,
    ) -> Decision:
        """Decide ConsumerGroupHeartbeat: a member joins, stays or leaves."""
        check_heartbeat(request, caller.version, self.setting(request.group_id).assignors)
        if request.member_epoch < JOINING_EPOCH:
            return self._leave(now_ms, token, request)
        if request.member_epoch == JOINING_EPOCH:
            change = self._open(request.group_id, now_ms)
        else:
            change = self.change(self._group(request.group_id, "Consumer group"), now_ms)
        decision = change.decision
        response = heartbeat(change, request, request.member_id or self.new_member_id(), caller)
        former = self.groups.get(request.group_id)
        if isinstance(former, ClassicGroup):
            refuse_waiting(decision, former)
            # Without the records the classic group stays, and so do the requests that wait in it.
            decision.failed = lambda error: Decision().reply(token, ConsumerGroupHeartbeatResponse(error_code=error))
        return decision.reply(token, response)

    def _leave(self, now_ms: int, token: Token, request: ConsumerGroupHeartbeatRequest) -> Decision:
        group = self._group(request.group_id)
        change = self.change(group, now_ms)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = known_instance(group.static_member(request.instance_id), request.member_id, request.instance_id)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            leave_temporarily(change, member)
        else:
            self.fence(change, [member])
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        return change.decision.reply(token, response)

    def describe(self, group_ids: Iterable[str]) -> list[ConsumerGroupDescribeResponseGroup]:
        """Describe groups in the order of their ids; a group that is not found has an error."""
        described = []
        for group_id in group_ids:
            try:
                group = self._group(group_id)
                described.append(describe(group, self.image, self.setting(group_id).assignors[0]))
            except ApiError as error:
                described.append(
                    ConsumerGroupDescribeResponseGroup(
                        group_id=group_id, error_code=error.code, error_message=error.message
                    )
                )
        return described

    def _group(self, group_id: str, kind: str = "Group") -> ConsumerGroup:
        """Return the consumer group with this id; raise GROUP_ID_NOT_FOUND if there is none."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def _open(self, group_id: str, now_ms: int) -> Change:
        """Begin a decision about the group that a member joins; a new group exists once its record is replayed."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.change(group, now_ms)
        if not isinstance(group, ClassicGroup):
            return self.change(ConsumerGroup(group_id), now_ms)
        if not group.members:  # the group is empty, or still waits for more members although its first one has left
            change = self.change(ConsumerGroup(group_id), now_ms)
            change.write(*group.tombstones())
            return change
        check_upgrade(group, self.setting(group_id))
        change = self.change(upgraded(group, self.image), now_ms)
        write_upgrade(change, group)
        # The assignments are out of date. A new member always causes a new target; a static one that returns may not.
        change.must_reassign = group.state is not STABLE
        return change

    def change(self, group: ConsumerGroup, now_ms: int) -> Change:
        """Begin a decision about a group."""
        setting = self.setting(group.group_id)
        return Change(group, now_ms, self.image, setting, self.topics_created_ms, self.topics_version)

    def fence(self, change: Change, members: list[ConsumerMember]) -> None:
        """Remove members that left or timed out; if only classic members stay, downgrade the group."""
        if members and may_downgrade(change, members):
            self._downgrade(change, members)
        elif members:
            remove_members(change, members)
            change.decision.failed = lambda error: self._decide_unwritten(change, members, error)

    def _downgrade(
        self,
        change: Change,
        gone: list[ConsumerMember],
        joining: ConsumerMember | None = None,
        *,
        rebalance: bool = True,
    ) -> None:
        group = change.group
        classic, records = downgraded(change, gone, joining)
        # Drop the records about members of the consumer group: its tombstones would remove them.
        change.decision.records[:] = records
        for member in group.members.values():
            for purpose in (REBALANCE, JOIN, SYNC):
                change.cancel_timer(purpose, member.member_id)
        classic_change = ClassicChange(classic, change.now_ms, self.classic.setting, change.decision)
        classic_change.restart_all()
        if rebalance:
            prepare_rebalance(classic_change)
        self.classic.expect(classic)
        change.decision.failed = lambda error: self._decide_not_downgraded(change, error)

    def _decide_not_downgraded(self, change: Change, error: ErrorCode) -> Decision:
        self.classic.drop_draft(change.group.group_id)
        return self._decide_unwritten(change, change.group.members.values(), error)

    def _decide_unwritten(self, attempt: Change, members: Iterable[ConsumerMember], error: ErrorCode) -> Decision:
        """Decide anew, because the records of an attempt could not be written: the group is unchanged.

        `members` are those whose timers the attempt has stopped. Without a timer a member would stay for ever.
        """
        change = self.change(attempt.group, attempt.now_ms)
        change.decision.timers += [Timer(timer.key, None) for timer in attempt.decision.timers]
        for member in members:
            watch(change, member)
        for reply in attempt.decision.replies:
            change.decision.reply(reply.token, type(reply.response)(error_code=error))
        return change.decision

    # Members of the classic protocol.

    def decide_classic_join(
        self, now_ms: int, token: Token, caller: Caller, group: ConsumerGroup, request: JoinGroupRequest
    ) -> Decision:
        """Decide JoinGroup to a consumer group; an empty group becomes classic."""
        if group.is_empty:
            return self.classic.decide_join(now_ms, token, caller, request, replaced=group)
        change = self.change(group, now_ms)
        member_id = request.member_id or self.new_member_id()
        classic.check_join(change, request, member_id)
        if classic.needs_id(request, caller.version):
            return change.decision.reply(token, refuse_join(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        former = group.static_member(request.group_instance_id)
        member, owned, changed = classic.join(change, caller, request, member_id)
        if former is not None and former.classic is None and may_downgrade(change, [former], replaced=True):
            # While a member is not reconciled, members do not own their targets. Kafka assigns the targets even so.
            rest = [other for other in group.members.values() if other is not former]
            reconciled = all(other.is_reconciled_to(group.assignment_epoch) for other in rest)
            rebalance = group.assignment_epoch < change.epoch or not reconciled
            if not rebalance:
                member = classic.step(change, member, owned, changed)
            self._downgrade(change, [former], member, rebalance=rebalance)
        else:
            member = classic.step(change, member, owned, changed)
            classic.watch_joined(change, member, request)
        return change.decision.reply(token, classic.joined(member))

    def decide_classic_sync(
        self, now_ms: int, token: Token, group: ConsumerGroup, request: SyncGroupRequest
    ) -> Decision:
        """Decide SyncGroup to a consumer group."""
        change = self.change(group, now_ms)
        return change.decision.reply(token, classic.sync(change, request))

    def decide_classic_heartbeat(
        self, now_ms: int, token: Token, group: ConsumerGroup, request: HeartbeatRequest
    ) -> Decision:
        """Decide Heartbeat to a consumer group."""
        change = self.change(group, now_ms)
        return change.decision.reply(token, HeartbeatResponse(error_code=classic.heartbeat(change, request)))

    def decide_classic_leave(
        self, now_ms: int, token: Token, group: ConsumerGroup, request: LeaveGroupRequest
    ) -> Decision:
        """Decide LeaveGroup to a consumer group."""
        change = self.change(group, now_ms)
        members, response = classic.leaving(group, request)
        self.fence(change, members)
        return change.decision.reply(token, response)

    # Timers, topics and the log.

    def on_timer(self, now_ms: int, key: tuple[str, ...]) -> Decision:
        """Remove a member that timed out, or resolve the regular expressions of a group."""
        group = self.groups.get(key[1])
        if not isinstance(group, ConsumerGroup):
            return Decision()
        change = self.change(group, now_ms)
        if key[0] == REGEX:
            return resolve_regexes(change)
        member = group.members.get(key[2])
        if member is None:
            return Decision()
        if key[0] == REBALANCE and not _is_late(group, member):
            return Decision()
        self.fence(change, [member])
        return change.decision

    def on_loaded(self, now_ms: int) -> Decision:
        """Start a whole session for every member, because none could reach the coordinator before."""
        self.topics_created_ms = max(self.topics_created_ms, now_ms)
        decision = Decision()
        for group in self.groups.values():
            if not isinstance(group, ConsumerGroup):
                continue
            change = Change(group, now_ms, self.image, self.setting(group.group_id), decision=decision)
            for member in group.members.values():
                watch(change, member)
        return decision

    def on_topics(self, now_ms: int, *, created: bool) -> None:
        """Note that topics changed: each group checks its own topics with its next heartbeat."""
        self.topics_version += 1
        if created:
            self.topics_created_ms = now_ms

    def replay(self, record: Record) -> bool:
        """Replay one record, live or from the log; False if it is not about a consumer group."""
        return replay(self.groups, record)


def _is_late(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether a member still has the partitions to revoke for which it was timed.

    It has none if the revocation could not be written, or if it has reached another epoch since.
    """
    is_timed = group.rebalance_epochs.get(member.member_id) == member.epoch
    return is_timed and member.state is MemberState.UNREVOKED_PARTITIONS
