"""The consumer groups of one coordinator: requests, timers and records in, decisions out."""

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from runnel.machines.controller.image import ClusterImage
from runnel.machines.group.consumer_change import JOIN, REBALANCE, REGEX, SESSION, SYNC, Change
from runnel.machines.group.consumer_description import describe
from runnel.machines.group.consumer_group import ConsumerGroup
from runnel.machines.group.consumer_heartbeat import check_heartbeat, heartbeat
from runnel.machines.group.consumer_member import JOINING_EPOCH, STATIC_LEAVING_EPOCH, ConsumerMember, MemberState
from runnel.machines.group.consumer_membership import known_instance, leave_for_a_while, remove_members
from runnel.machines.group.consumer_replay import replay
from runnel.machines.group.consumer_setting import ConsumerGroupSetting
from runnel.machines.group.consumer_subscription import resolve_regexes
from runnel.machines.group.decision import Decision, Token
from runnel.machines.group.record.format import Record
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.consumer_group import (
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

TIMERS = (SESSION, REBALANCE, JOIN, SYNC, REGEX)


class ConsumerCoordinator:
    """Decides for all groups of the new protocol among `groups`, which it shares with the classic ones.

    `setting` gives the values that hold for a group; `new_member_id` makes an id for a member that brings none.
    """

    def __init__(
        self,
        groups: MutableMapping[str, Any],
        image: ClusterImage,
        setting: Callable[[str], ConsumerGroupSetting],
        new_member_id: Callable[[], str],
    ) -> None:
        self.groups = groups
        self.image = image
        self.setting = setting
        self.new_member_id = new_member_id
        self.topics_created_ms = 0

    # Requests.

    def decide_heartbeat(
        self,
        now_ms: int,
        token: Token,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client_id: str,
        client_host: str,
    ) -> Decision:
        """A member joins, stays or leaves."""
        check_heartbeat(request, version, self.setting(request.group_id).assignors)
        if request.member_epoch < JOINING_EPOCH:
            return self._leave(now_ms, token, request)
        group = self._group(request.group_id, create=request.member_epoch == JOINING_EPOCH)
        change = self.change(group, now_ms)
        member_id = request.member_id or self.new_member_id()
        response = heartbeat(change, request, member_id, client_id, client_host)
        return change.decision.reply(token, response)

    def _leave(self, now_ms: int, token: Token, request: ConsumerGroupHeartbeatRequest) -> Decision:
        group = self._group(request.group_id, create=False)
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
                group = self._group(group_id, create=False)
                described.append(describe(group, self.image, self.setting(group_id).assignors[0]))
            except ApiError as error:
                described.append(
                    ConsumerGroupDescribeResponseGroup(
                        group_id=group_id, error_code=error.code, error_message=error.message
                    )
                )
        return described

    def _group(self, group_id: str, *, create: bool) -> ConsumerGroup:
        """The group of this id, or a fresh one that exists once its first record is replayed."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None and create:
            return ConsumerGroup(group_id)
        text = (
            f"Consumer group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        )
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, text)

    def change(self, group: ConsumerGroup, now_ms: int) -> Change:
        """A decision about a group, still empty."""
        return Change(group, now_ms, self.image, self.setting(group.group_id), self.topics_created_ms)

    def fence(self, change: Change, members: list[ConsumerMember]) -> None:
        """Members are gone, of their own will or not."""
        remove_members(change, members)

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
                change.set_timer(SESSION, member.member_id, change.setting.session_timeout_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    group.rebalance_epochs[member.member_id] = member.epoch
                    change.set_timer(REBALANCE, member.member_id, member.rebalance_timeout_ms)
        return decision

    def on_topics(self, now_ms: int, changed: Iterable[str], *, created: bool) -> None:
        """Topics were created, changed or deleted: the groups that read them look again at their next heartbeat."""
        if created:
            self.topics_created_ms = now_ms
        names = set(changed)
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup) and not names.isdisjoint(group.topic_names):
                group.refreshed_epoch = None

    def replay(self, record: Record) -> bool:
        """Take in one record, live or from the log; False when it is not about consumer groups."""
        return replay(self.groups, record)
