"""The consumer groups of one coordinator: requests, timers and records in, decisions out."""

from collections.abc import Callable, Iterable, MutableMapping

from runnel.machines.controller.image import ClusterImage
from runnel.machines.decision import Token
from runnel.machines.group import consumer_classic as classic
from runnel.machines.group.classic_change import ClassicChange, refuse_join
from runnel.machines.group.classic_coordinator import ClassicCoordinator
from runnel.machines.group.classic_group import ClassicGroup, ClassicState
from runnel.machines.group.classic_rebalance import prepare_rebalance
from runnel.machines.group.consumer_change import JOIN, REBALANCE, REGEX, SESSION, SYNC, Change
from runnel.machines.group.consumer_description import describe
from runnel.machines.group.consumer_group import ConsumerGroup
from runnel.machines.group.consumer_heartbeat import check_heartbeat, heartbeat
from runnel.machines.group.consumer_member import JOINING_EPOCH, STATIC_LEAVING_EPOCH, ConsumerMember
from runnel.machines.group.consumer_membership import known_instance, leave_for_a_while, remove_members, watch
from runnel.machines.group.consumer_replay import replay
from runnel.machines.group.consumer_setting import ConsumerGroupSetting
from runnel.machines.group.consumer_subscription import resolve_regexes
from runnel.machines.group.decision import Decision
from runnel.machines.group.group import Caller, Group
from runnel.machines.group.migration import check_upgrade, downgraded, may_downgrade, send_away, upgraded, write_upgrade
from runnel.machines.log_record import Record
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.consumer_group import (
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from runnel.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

TIMERS = (SESSION, REBALANCE, JOIN, SYNC, REGEX)


class ConsumerCoordinator:
    """Decides for all groups of the new protocol among `groups`, which it shares with the classic ones.

    `setting` gives the values that hold for a group; `new_member_id` makes an id for a member that brings none.
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
        """A member joins, stays or leaves."""
        check_heartbeat(request, caller.version, self.setting(request.group_id).assignors)
        if request.member_epoch < JOINING_EPOCH:
            return self._leave(now_ms, token, request)
        if request.member_epoch == JOINING_EPOCH:
            change = self._open(request.group_id, now_ms)
        else:
            change = self.change(self._group(request.group_id, "Consumer group"), now_ms)
        member_id = request.member_id or self.new_member_id()
        former = self.groups.get(request.group_id)
        response = heartbeat(change, request, member_id, caller)
        if isinstance(former, ClassicGroup):
            send_away(ClassicChange(former, now_ms, self.classic.setting, change.decision))
        return change.decision.reply(token, response)

    def _leave(self, now_ms: int, token: Token, request: ConsumerGroupHeartbeatRequest) -> Decision:
        group = self._group(request.group_id)
        change = self.change(group, now_ms)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = known_instance(group.static_member(request.instance_id), request.member_id, request.instance_id)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            leave_for_a_while(change, member)
        else:
            self.fence(change, [member])
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        return change.decision.reply(token, response)

    def describe(self, group_ids: Iterable[str]) -> list[ConsumerGroupDescribeResponseGroup]:
        """The groups in detail, in the order asked for."""
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
        """The group of this id, or GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def _open(self, group_id: str, now_ms: int) -> Change:
        """A decision about the group that a new member joins; it exists once its first record is replayed."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.change(group, now_ms)
        if not isinstance(group, ClassicGroup):
            return self.change(ConsumerGroup(group_id), now_ms)
        if group.is_empty:
            change = self.change(ConsumerGroup(group_id), now_ms)
            change.write(*group.tombstones())
            return change
        check_upgrade(group, self.setting(group_id))
        change = self.change(upgraded(group, self.image), now_ms)
        write_upgrade(change, group)
        # What members were given is out of date. A new member changes that; a static one may come back as it was.
        change.must_divide = group.state is not ClassicState.STABLE
        return change

    def change(self, group: ConsumerGroup, now_ms: int) -> Change:
        """A decision about a group, still empty."""
        setting = self.setting(group.group_id)
        return Change(group, now_ms, self.image, setting, self.topics_created_ms, self.topics_version)

    def fence(self, change: Change, members: list[ConsumerMember]) -> None:
        """Members are gone, of their own will or not; if only classic ones are left, the group is a classic one."""
        if members and may_downgrade(change, members):
            self._downgrade(change, members)
        elif members:
            remove_members(change, members)
            change.decision.failed = lambda error: self._keep(change, members, error)

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
        # What was to be written about members of the old group so far would be undone by its tombstones.
        change.decision.records[:] = records
        # Not by replay alone: the record of a classic group leaves out who waits, and all protocols but one.
        self.groups[group.group_id] = classic
        change.decision.failed = lambda error: self._stay(change, gone, error)
        for member in group.members.values():
            for purpose in (REBALANCE, JOIN, SYNC):
                change.cancel_timer(purpose, member.member_id)
        classic_change = ClassicChange(classic, change.now_ms, self.classic.setting, change.decision)
        for classic_member in classic.members.values():
            classic_change.restart_session(classic_member)
        if rebalance:
            prepare_rebalance(classic_change)

    def _stay(self, change: Change, members: list[ConsumerMember], error: ErrorCode) -> Decision:
        """What should have made the group another one was not written, so it is what it was."""
        self.groups[change.group.group_id] = change.group
        return self._keep(change, members, error)

    def _keep(self, change: Change, members: list[ConsumerMember], error: ErrorCode) -> Decision:
        """Members could not be removed, so their time begins again: without a timer they would stay for ever."""
        undo = self.change(change.group, change.now_ms)
        for member in members:
            watch(undo, member)
        for reply in change.decision.replies:
            undo.decision.reply(reply.token, type(reply.response)(error_code=error))
        return undo.decision

    # Members of the classic protocol.

    def decide_classic_join(
        self, now_ms: int, token: Token, caller: Caller, group: ConsumerGroup, request: JoinGroupRequest
    ) -> Decision:
        """JoinGroup to a group of the new protocol; an empty one becomes classic at once."""
        if group.is_empty:
            return self._found_classic(now_ms, token, caller, group, request)
        change = self.change(group, now_ms)
        member_id = request.member_id or self.new_member_id()
        classic.check_join(change, request, member_id)
        if classic.needs_id(request, caller.version):
            return change.decision.reply(token, refuse_join(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        former = group.static_member(request.group_instance_id)
        member, owned, changed = classic.join(change, caller, request, member_id)
        if former is not None and former.classic is None and may_downgrade(change, [former], replaced=True):
            # Where somebody is still on its way, the targets are not what members have. Kafka hands them out even so.
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

    def _found_classic(
        self, now_ms: int, token: Token, caller: Caller, group: ConsumerGroup, request: JoinGroupRequest
    ) -> Decision:
        del self.groups[group.group_id]
        decision = self.classic.decide_join(now_ms, token, caller, request)
        if group.group_id not in self.groups:
            self.groups[group.group_id] = group  # the join was refused
            return decision
        decision.records[:0] = group.tombstones()
        unfound = decision.failed

        def failed(error: ErrorCode) -> Decision:
            undo = Decision() if unfound is None else unfound(error)
            self.groups[group.group_id] = group
            return undo

        decision.failed = failed
        return decision

    def decide_classic_sync(
        self, now_ms: int, token: Token, group: ConsumerGroup, request: SyncGroupRequest
    ) -> Decision:
        """SyncGroup to a group of the new protocol."""
        change = self.change(group, now_ms)
        return change.decision.reply(token, classic.sync(change, request))

    def decide_classic_heartbeat(
        self, now_ms: int, token: Token, group: ConsumerGroup, request: HeartbeatRequest
    ) -> Decision:
        """Heartbeat to a group of the new protocol."""
        change = self.change(group, now_ms)
        return change.decision.reply(token, HeartbeatResponse(error_code=classic.heartbeat(change, request)))

    def decide_classic_leave(
        self, now_ms: int, token: Token, group: ConsumerGroup, request: LeaveGroupRequest
    ) -> Decision:
        """LeaveGroup to a group of the new protocol."""
        change = self.change(group, now_ms)
        members, response = classic.leaving(group, request)
        self.fence(change, members)
        return change.decision.reply(token, response)

    # Time and the world.

    def on_timer(self, now_ms: int, key: tuple[str, ...]) -> Decision:
        """A member was silent or slow for too long, or regular expressions are due."""
        group = self.groups.get(key[1])
        if not isinstance(group, ConsumerGroup):
            return Decision()
        change = self.change(group, now_ms)
        if key[0] == REGEX:
            return resolve_regexes(change)
        member = group.members.get(key[2])
        if member is None:
            return Decision()
        if key[0] == REBALANCE and group.rebalance_epochs.pop(member.member_id, None) != member.epoch:
            return Decision()  # it has moved on since
        self.fence(change, [member])
        return change.decision

    def on_loaded(self, now_ms: int) -> Decision:
        """All members get a whole session from now on: they could not reach anybody before."""
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
        """Topics were created, changed or deleted: each group looks at its own again with its next heartbeat."""
        self.topics_version += 1
        if created:
            self.topics_created_ms = now_ms

    def replay(self, record: Record) -> bool:
        """Take in one record, live or from the log; False when it is not about consumer groups."""
        return replay(self.groups, record)
