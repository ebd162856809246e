"""A coordinator on virtual time, for scenarios that read as request, reply, records.

Records pass through their bytes, as they would through the log. Each request is named by whoever sends it; a reply is
taken by that name, once it is there.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from tailrace.machines.group.classic.setting import ClassicGroupSetting
from tailrace.machines.group.coordinator import EXPIRY, GroupCoordinator
from tailrace.machines.group.decision import Decision
from tailrace.machines.group.group import Caller
from tailrace.machines.group.offset.coordinator import OffsetSetting
from tailrace.machines.group.record.classic import GroupMetadataKey, GroupMetadataValue
from tailrace.machines.group.record.format import decode_record, encode_record
from tailrace.machines.log_record import Record
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
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
from tailrace.protocol.messages.group_offset import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from tailrace.protocol.messages.transaction import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tailrace.records.batch import NO_PRODUCER_ID

T = TypeVar("T")

GROUP = "g"
START_MS = 1_000_000


class Marker(NamedTuple):
    """The end of a producer's transaction."""

    producer_id: int
    is_commit: bool


Entry = tuple[bytes, bytes | None, int] | Marker
"""What the log holds: key, value and producer id of a record, or a marker."""


def answered(reply: T | None) -> T:
    """Return a reply, or another value, that must be there."""
    assert reply is not None
    return reply


class Script:
    """Drives one coordinator and keeps what it says."""

    def __init__(self, classic: ClassicGroupSetting | None = None, offsets: OffsetSetting | None = None) -> None:
        self.now_ms = START_MS
        self.group_id = GROUP
        self.classic = classic or ClassicGroupSetting()
        self.offsets = offsets or OffsetSetting()
        self.log: list[Entry] = []
        self.append_error: ErrorCode | None = None
        self._ids = 0
        self._seen = 0
        self._start()

    def _start(self) -> None:
        self.machine = GroupCoordinator(self.classic, self.offsets, self._new_uuid)
        self.timers: dict[tuple[str, ...], int] = {}
        self.replies: dict[object, Message] = {}

    def _new_uuid(self) -> str:
        self._ids += 1
        return str(self._ids)

    def restart(self) -> None:
        """Lose everything but the log."""
        self._start()
        for offset, entry in enumerate(self.log):
            self._replay(entry, offset)
        self.carry_out(self.machine.on_loaded(self.now_ms))

    def _replay(self, entry: Entry, offset: int) -> None:
        match entry:
            case Marker(producer_id, is_commit):
                self.machine.replay_transaction_end(producer_id, is_commit=is_commit)
            case key, value, producer_id:
                self.machine.replay(decode_record(key, value), offset, producer_id)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker comes."""
        self.log.append(Marker(producer_id, is_commit))
        self._replay(self.log[-1], len(self.log) - 1)

    def carry_out(self, decision: Decision) -> None:
        """What the shell does with a decision."""
        for timer in decision.timers:
            self.timers.pop(timer.key, None)
            if timer.at_ms is not None:
                self.timers[timer.key] = timer.at_ms
        if decision.records and self.append_error is not None:
            error, self.append_error = self.append_error, None
            assert decision.failed is not None
            self.carry_out(decision.failed(error))
            return
        for record in decision.records:
            producer_id = NO_PRODUCER_ID if decision.producer is None else decision.producer.producer_id
            self.log.append((*encode_record(record), producer_id))
            self._replay(self.log[-1], len(self.log) - 1)
        for reply in decision.replies:
            assert reply.token not in self.replies, f"{reply.token} is answered twice"
            self.replies[reply.token] = reply.response

    def pass_time(self, wait_ms: int) -> None:
        """Let timers fire in their order until so much time has passed."""
        end_ms = self.now_ms + wait_ms
        while due := [(at, key) for key, at in self.timers.items() if at <= end_ms]:
            at_ms, key = min(due)
            self.now_ms = max(self.now_ms, at_ms)
            del self.timers[key]
            self.carry_out(self.machine.on_timer(self.now_ms, key))
        self.now_ms = end_ms

    def take(self, name: str) -> Any:
        """The reply to the latest request of this name, or None while it waits."""
        return self.replies.pop(name, None)

    def new_records(self) -> list[Record]:
        """What was written since this was last asked."""
        records = [decode_record(*entry[:2]) for entry in self.log[self._seen :] if not isinstance(entry, Marker)]
        self._seen = len(self.log)
        return records

    def generations(self) -> list[GroupMetadataValue | None]:
        """The group's records among those written since this was last asked."""
        return [
            record.value  # type: ignore[misc]
            for record in self.new_records()
            if isinstance(record.key, GroupMetadataKey)
        ]

    # Requests.

    def join(
        self,
        name: str,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Iterable[tuple[str, bytes]] = (("range", b"sub"),),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
    ) -> JoinGroupResponse | None:
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=key, metadata=metadata) for key, metadata in protocols],
        )
        self.carry_out(self.machine.decide_join(self.now_ms, name, Caller("c", "/h", version), request))
        reply: JoinGroupResponse | None = self.take(name)
        return reply

    def sync(
        self,
        name: str,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> SyncGroupResponse | None:
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=key, assignment=value)
                for key, value in (assignments or {}).items()
            ],
        )
        self.carry_out(self.machine.decide_sync(self.now_ms, name, request))
        reply: SyncGroupResponse | None = self.take(name)
        return reply

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        self.carry_out(self.machine.decide_heartbeat(self.now_ms, "heartbeat", request))
        response = self.take("heartbeat")
        assert isinstance(response, HeartbeatResponse)
        return ErrorCode(response.error_code)

    def leave(self, *identities: tuple[str, str | None]) -> list[ErrorCode]:
        members = [LeaveGroupRequestMember(member_id=key, group_instance_id=instance) for key, instance in identities]
        request = LeaveGroupRequest(group_id=self.group_id, members=members)
        self.carry_out(self.machine.decide_leave(self.now_ms, "leave", request))
        response = self.take("leave")
        assert isinstance(response, LeaveGroupResponse)
        assert response.error_code == ErrorCode.NONE
        return [ErrorCode(member.error_code) for member in response.members]

    def commit(
        self,
        offset: int,
        *,
        member_id: str = "",
        generation: int = -1,
        topic: str = "t",
        partition: int = 0,
        group_id: str = GROUP,
        version: int = 9,
        **more: Any,
    ) -> ErrorCode:
        """Commit one offset; raises the ApiError of a commit that is refused as a whole."""
        entry = OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_metadata=more.pop("metadata", ""),
            committed_leader_epoch=more.pop("leader_epoch", -1),
        )
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[entry], **more.pop("in_topic", {}))],
            **more,
        )
        self.carry_out(self.machine.decide_commit(self.now_ms, "commit", Caller("c", "/h", version), request))
        response = self.take("commit")
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def transactional_commit(
        self,
        offset: int,
        *,
        producer_id: int = 1,
        producer_epoch: int = 0,
        member_id: str = "",
        generation: int = -1,
        topic: str = "t",
        partition: int = 0,
        group_id: str = GROUP,
        version: int = 5,
        **more: Any,
    ) -> ErrorCode:
        """Commit one offset in a transaction; raises the ApiError of a commit that is refused as a whole."""
        entry = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=more.pop("metadata", "")
        )
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[entry], **more.pop("in_topic", {}))],
            **more,
        )
        caller = Caller("c", "/h", version)
        self.carry_out(self.machine.decide_transactional_commit(self.now_ms, "commit", caller, request))
        return ErrorCode(self.take("commit").topics[0].partitions[0].error_code)

    def fetch_stable(self, topic: str = "t", partition: int = 0) -> int | ErrorCode:
        """The committed offset for somebody who waits for open transactions, or why there is none."""
        asked = OffsetFetchRequestGroupTopic(name=topic, partition_indexes=[partition])
        request = OffsetFetchRequestGroup(group_id=GROUP, topics=[asked])
        (answer,) = self.machine.fetch_offsets(request, require_stable=True).topics[0].partitions
        return ErrorCode(answer.error_code) if answer.error_code else answer.committed_offset

    def fetch(self, topic: str = "t", partition: int = 0, group_id: str = GROUP, **more: Any) -> tuple[int, int, str]:
        """The committed offset, its epoch and its metadata."""
        asked = OffsetFetchRequestGroupTopic(name=topic, partition_indexes=[partition], **more)
        found = self.machine.fetch_offsets(OffsetFetchRequestGroup(group_id=group_id, topics=[asked]))
        (answer,) = found.topics[0].partitions
        assert answer.error_code == ErrorCode.NONE
        return answer.committed_offset, answer.committed_leader_epoch, answer.metadata or ""

    # Shorter ways to common places.

    def new_member(self, name: str, **how: Any) -> str:
        """Join in two steps; the id. The second join waits for the rebalance under this name."""
        response = self.join(name, **how)
        assert response is not None
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert self.join(name, response.member_id, **how) is None
        return response.member_id

    def stable(self, *names: str, **how: Any) -> list[str]:
        """Found a group of these members and bring it to its first generation; each is assigned its own name."""
        ids = [self.new_member(name, **how) for name in names]
        self.pass_time(self.classic.initial_rebalance_delay_ms * 2)
        for name in names:
            assert self.take(name).generation_id == 1
        self.sync_all(1, dict(zip(ids, names, strict=True)))
        self.new_records()
        return ids

    def sync_all(self, generation: int, assignments: dict[str, str]) -> None:
        """Everybody syncs, the first as the leader with the others' names as their assignments."""
        given = {key: value.encode() for key, value in assignments.items()}
        for member_id, name in assignments.items():
            response = self.sync(name, member_id, generation, given)
            assert response is not None
            assert response.assignment == name.encode()

    def state(self, group_id: str = GROUP) -> str:
        return self.machine.describe(group_id, 0).group_state

    def expire(self) -> None:
        """Look for expired offsets now."""
        self.carry_out(self.machine.on_timer(self.now_ms, EXPIRY))
