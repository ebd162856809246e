"""A script for a consumer group: requests in, replies and records out as short lines.

`Script` carries out decisions as the shell does: timers, one batch of records (through their bytes), replay,
replies. With `restarts`, the coordinator is lost and read from its log after every step, and everything must
go on as if nothing had happened.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import TopicRecord, TopicRemoved
from tailrace.machines.group.classic.setting import ClassicGroupSetting
from tailrace.machines.group.consumer.setting import ConsumerGroupSetting
from tailrace.machines.group.coordinator import GroupCoordinator
from tailrace.machines.group.decision import Decision
from tailrace.machines.group.group import Caller
from tailrace.machines.group.offset.coordinator import OffsetSetting
from tailrace.machines.group.record.classic import GroupMetadataKey
from tailrace.machines.group.record.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tailrace.machines.group.record.format import decode_record, encode_record
from tailrace.machines.log_record import Record
from tailrace.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    decode_versioned,
    encode_versioned,
)
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

GROUP = "g"
START_MS = 1_000_000


class Script:
    """One group `g`, its log, its timers, and the topics around it."""

    def __init__(self, *, restarts: bool = False, setting: ConsumerGroupSetting | None = None, **topics: int) -> None:
        self.image = ClusterImage()
        self.setting = setting or ConsumerGroupSetting()
        self.restarts = restarts
        self.append_error: ErrorCode | None = None  # fails the next write
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers: dict[tuple[str, ...], int] = {}
        self.written: list[str] = []
        self.replies: dict[object, Any] = {}
        self.made_ids = 0
        self.coordinator = self._new_coordinator()
        for name, count in topics.items():
            self.make_topic(name, count)

    def _new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            ClassicGroupSetting(), OffsetSetting(), self._make_id, self.image, lambda _: self.setting
        )

    def _make_id(self) -> str:
        self.made_ids += 1
        return f"made-{self.made_ids}"

    # Topics.

    def make_topic(self, name: str, count: int) -> None:
        created = name not in self.image.topics
        topic_id = UUID(bytes=name.encode().ljust(16, b"\0")[:16])
        self.image.replay(TopicRecord(name, topic_id, ((0,),) * count))
        self.coordinator.on_topics(self.now_ms, created=created)

    def delete_topic(self, name: str) -> None:
        self.image.replay(TopicRemoved(name))
        self.coordinator.on_topics(self.now_ms, created=False)

    # What members do.

    def join(self, member: str, *names: str, **fields: Any) -> str:
        """Join, subscribed to these topics, and say all that a first heartbeat must say."""
        said: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "owned": {}, "names": list(names)}
        return self.beat(member, 0, **(said | fields))

    def beat(
        self,
        member: str,
        epoch: int,
        *,
        owned: Mapping[str, Iterable[int]] | None = None,
        names: list[str] | None = None,
        regex: str | None = None,
        instance: str | None = None,
        version: int = 1,
        client: str = "client",
        **fields: Any,
    ) -> str:
        """One heartbeat and its reply: `a@2`, with ` foo:0,1` when it holds an assignment; or an error."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            subscribed_topic_names=names,
            subscribed_topic_regex=regex,
            topic_partitions=None
            if owned is None
            else [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=self.topic_id(name), partitions=list(indexes))
                for name, indexes in owned.items()
            ],
            **fields,
        )
        try:
            caller = Caller(client, "/127.0.0.1", version)
            decision = self.coordinator.decide_consumer_heartbeat(self.now_ms, member, caller, request)
        except ApiError as error:
            return error.code.name
        self.carry_out(decision)
        return self.show_reply(self.replies.pop(member))

    def leave(self, member: str, epoch: int = -1, instance: str | None = None) -> str:
        return self.beat(member, epoch, instance=instance)

    def describe(self, group_id: str = GROUP) -> ConsumerGroupDescribeResponseGroup:
        return self.coordinator.describe_consumer([group_id])[0]

    # What members of the classic protocol do. A reply that has to wait is taken with `take`.

    def classic_join(
        self,
        name: str,
        *topics: str,
        member: str = "",
        owned: Mapping[str, Iterable[int]] | None = None,
        instance: str | None = None,
        protocols: Iterable[str] = ("range",),
        version: int = 9,
    ) -> str:
        subscription = ConsumerProtocolSubscription(
            topics=list(topics),
            owned_partitions=[
                ConsumerProtocolTopicPartition(topic=topic, partitions=list(indexes))
                for topic, indexes in (owned or {}).items()
            ],
        )
        metadata = encode_versioned(subscription)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=member,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=one, metadata=metadata) for one in protocols],
        )
        caller = Caller(name, "/127.0.0.1", version)
        self.carry_out(self.coordinator.decide_join(self.now_ms, name, caller, request))
        return self.take(name)

    def classic_sync(
        self, name: str, member: str, generation: int, given: Mapping[str, Mapping[str, list[int]]] | None = None
    ) -> str:
        """Ask for the assignment; the leader of a classic group brings everybody's."""
        assignments = [
            SyncGroupRequestAssignment(
                member_id=key,
                assignment=encode_versioned(
                    ConsumerProtocolAssignment(
                        assigned_partitions=[
                            ConsumerProtocolTopicPartition(topic=topic, partitions=indexes)
                            for topic, indexes in topics.items()
                        ]
                    )
                ),
            )
            for key, topics in (given or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=member,
            generation_id=generation,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        self.carry_out(self.coordinator.decide_sync(self.now_ms, name, request))
        return self.take(name)

    def classic_beat(self, name: str, member: str, generation: int) -> str:
        request = HeartbeatRequest(group_id=GROUP, member_id=member, generation_id=generation)
        self.carry_out(self.coordinator.decide_heartbeat(self.now_ms, name, request))
        return self.take(name)

    def classic_leave(self, name: str, member: str, instance: str | None = None) -> str:
        leaving = LeaveGroupRequestMember(member_id=member, group_instance_id=instance)
        request = LeaveGroupRequest(group_id=GROUP, members=[leaving])
        self.carry_out(self.coordinator.decide_leave(self.now_ms, name, request))
        return self.take(name)

    def take(self, name: str) -> str:
        """The reply that has come for this name, or that it waits."""
        reply = self.replies.pop(name, None)
        match reply:
            case None:
                return "waits"
            case JoinGroupResponse(error_code=ErrorCode.NONE):
                leads = " leads" if reply.leader == reply.member_id else ""
                return f"{reply.member_id}@{reply.generation_id} {reply.protocol_name}{leads}"
            case JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED):
                return f"MEMBER_ID_REQUIRED {reply.member_id}"
            case SyncGroupResponse(error_code=ErrorCode.NONE):
                return self._show_assignment(reply.assignment)
            case LeaveGroupResponse():
                return ErrorCode(reply.error_code or reply.members[0].error_code).name
        return ErrorCode(reply.error_code).name

    def _show_assignment(self, data: bytes) -> str:
        if not data:
            return "-"
        topics = decode_versioned(ConsumerProtocolAssignment, data).assigned_partitions
        return " ".join(f"{topic.topic}:{','.join(map(str, topic.partitions))}" for topic in topics) or "-"

    # What the shell does.

    def carry_out(self, decision: Decision) -> None:
        """Set timers, write and replay the records, and keep the replies."""
        for timer in decision.timers:
            if timer.at_ms is None:
                self.timers.pop(timer.key, None)
            else:
                self.timers[timer.key] = timer.at_ms
        if decision.records and self.append_error is not None:
            error, self.append_error = self.append_error, None
            if decision.failed is not None:
                self.carry_out(decision.failed(error))
            else:
                self.replies |= {one.token: type(one.response)(error_code=error) for one in decision.replies}
            return
        self.written = [self.show(record) for record in decision.records]
        for encoded in map(encode_record, decision.records):
            self.log.append(encoded)
            self.coordinator.replay(decode_record(*encoded))
        if self.restarts:
            self.restart()
        self.replies |= {reply.token: reply.response for reply in decision.replies}

    def restart(self) -> None:
        """Lose the coordinator with all its timers, and read the log."""
        regexes_due = [key for key in self.timers if key[0] == "consumer-regex"]
        self.coordinator, self.timers = self._new_coordinator(), {}
        for key, value in self.log:
            self.coordinator.replay(decode_record(key, value))
        for timer in self.coordinator.on_loaded(self.now_ms).timers:
            assert timer.at_ms is not None
            self.timers[timer.key] = timer.at_ms
        self.timers |= dict.fromkeys(regexes_due, self.now_ms)

    def wait(self, wait_ms: int) -> list[str]:
        """Let time pass, and return all records that timers wrote."""
        until_ms = self.now_ms + wait_ms
        written = []
        while self.timers and min(self.timers.values()) <= until_ms:
            key = min(self.timers, key=lambda key: self.timers[key])
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            self.carry_out(self.coordinator.on_timer(self.now_ms, key))
            written += self.written
        self.now_ms = until_ms
        return written

    @staticmethod
    def record_of(encoded: tuple[bytes, bytes | None]) -> Record:
        """A record of the log."""
        return decode_record(*encoded)

    # How it reads.

    def topic_id(self, name: str) -> UUID:
        return self.image.topics[name].topic_id

    def _parts(self, topics: Iterable[Any]) -> str:
        names = {topic.topic_id: topic.name for topic in self.image.topics.values()}
        return " ".join(f"{names.get(topic.topic_id, '?')}:{','.join(map(str, topic.partitions))}" for topic in topics)

    def show_reply(self, reply: ConsumerGroupHeartbeatResponse) -> str:
        if reply.error_code != ErrorCode.NONE:
            return ErrorCode(reply.error_code).name
        text = f"{reply.member_id}@{reply.member_epoch}"
        if reply.assignment is None:
            return text
        return f"{text} {self._parts(reply.assignment.topic_partitions) or '-'}"

    def show(self, record: Record) -> str:
        """A record as one line; a tombstone ends in `gone`."""
        key: Any = record.key
        value: Any = record.value
        match key:
            case GroupMetadataKey():
                return f"classic {self._show_classic(value)}"
            case ConsumerGroupMetadataKey():
                return "epoch gone" if value is None else f"epoch {value.epoch}"
            case ConsumerGroupPartitionMetadataKey():
                return "partition-metadata gone"
            case ConsumerGroupMemberMetadataKey():
                return f"member {key.member_id} {self._show_member(value)}"
            case ConsumerGroupTargetAssignmentMetadataKey():
                return "target-epoch gone" if value is None else f"target-epoch {value.assignment_epoch}"
            case ConsumerGroupTargetAssignmentMemberKey():
                parts = "gone" if value is None else self._parts(value.topic_partitions) or "-"
                return f"target {key.member_id} {parts}"
            case ConsumerGroupCurrentMemberAssignmentKey():
                return f"current {key.member_id} {self._show_current(value)}"
            case ConsumerGroupRegularExpressionKey():
                topics = "gone" if value is None else ",".join(value.topics) or "-"
                return f"regex {key.regular_expression} {topics}"
        raise AssertionError(key)

    def _show_classic(self, value: Any) -> str:
        if value is None:
            return "gone"
        members = [f"{member.member_id}({self._show_assignment(member.assignment)})" for member in value.members]
        return " ".join([f"@{value.generation}", *members])

    @staticmethod
    def _show_member(value: Any) -> str:
        if value is None:
            return "gone"
        words = [",".join(value.subscribed_topic_names) or "-"]
        words += [f"/{value.subscribed_topic_regex}/"] if value.subscribed_topic_regex else []
        words += [f"instance={value.instance_id}"] if value.instance_id else []
        words += [f"assignor={value.server_assignor}"] if value.server_assignor else []
        words += ["classic"] if value.classic_member_metadata is not None else []
        return " ".join(words)

    def _show_current(self, value: Any) -> str:
        if value is None:
            return "gone"
        state = ("stable", "unrevoked", "unreleased")[value.state]
        text = f"{value.previous_member_epoch}->{value.member_epoch} {state}"
        text += f" {self._parts(value.assigned_partitions) or '-'}"
        if value.partitions_pending_revocation:
            text += f" revoking {self._parts(value.partitions_pending_revocation)}"
        return text
