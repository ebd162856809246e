"""Virtual time, a network that loses messages, and a coordinator that dies and comes back from its log.

Everything random comes from one seed, so a run can be repeated exactly. Nothing here knows what is right;
that is in `group_check`.
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import TopicRecord
from tailrace.machines.group.classic.description import describe_group
from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.classic.setting import ClassicGroupSetting
from tailrace.machines.group.consumer.setting import ConsumerGroupSetting
from tailrace.machines.group.coordinator import GroupCoordinator
from tailrace.machines.group.decision import Decision
from tailrace.machines.group.group import Caller
from tailrace.machines.group.offset.coordinator import OffsetSetting
from tailrace.machines.group.record.format import decode_record, encode_record
from tailrace.machines.log_replay import newest
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tailrace.protocol.messages.group_offset import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

START_MS = 1_700_000_000_000

ANSWERS: dict[type[Message], type[Message]] = {
    ConsumerGroupHeartbeatRequest: ConsumerGroupHeartbeatResponse,
    JoinGroupRequest: JoinGroupResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    LeaveGroupRequest: LeaveGroupResponse,
}


class Clock:
    """What happens when, in the order of time."""

    def __init__(self, seed: int) -> None:
        self.now_ms = START_MS
        self.random = Random(seed)
        self._order = itertools.count()
        self._events: list[tuple[int, int, Callable[[], None]]] = []

    def after(self, wait_ms: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + int(wait_ms), next(self._order), action))

    def run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            at_ms, _, action = heapq.heappop(self._events)
            self.now_ms = at_ms
            action()
        self.now_ms = end_ms


@dataclass(eq=False)
class Request:
    """A request on its way or waiting; answered once at most."""

    message: Message
    reply: Callable[[Any], None]
    answered: bool = False


@dataclass
class Trouble:
    """How often what goes wrong; all zero when the world is quiet."""

    loss: float = 0.01
    append_failure: float = 0.005
    latency_ms: tuple[int, int] = (1, 40)


@dataclass
class World:
    """One coordinator, its log, its topics, and the network between it and the members."""

    clock: Clock
    trouble: Trouble = field(default_factory=Trouble)
    setting: ConsumerGroupSetting = field(default_factory=ConsumerGroupSetting)
    restart_count: int = 0

    def __post_init__(self) -> None:
        self.image = ClusterImage()
        self.log: list[tuple[bytes, bytes | None]] = []
        self._batch_ends: list[int] = []
        self.trace: list[str] = []
        self.is_up = True
        self._incarnation = 0
        self._ids = itertools.count()
        self.machine = self._load()

    # The coordinator.

    def _load(self) -> GroupCoordinator:
        self._timers: dict[tuple[str, ...], int] = {}
        machine = GroupCoordinator(
            ClassicGroupSetting(), OffsetSetting(), self.new_id, self.image, lambda _: self.setting
        )
        for start, end in itertools.pairwise(self._cut()):
            for key, value in newest(self.log[start:end]).items():
                machine.replay(decode_record(key, value))
        self._check_loaded(machine)
        self.machine = machine
        self._carry_out(machine.on_loaded(self.clock.now_ms))
        return machine

    def _cut(self) -> list[int]:
        """Where pieces of the log begin and end that are read at once: anywhere between two batches."""
        random = Random(len(self.log))  # not the clock's, which must go on as if nothing had been asked
        cuts = random.sample(self._batch_ends, min(random.randrange(4), len(self._batch_ends)))
        return [0, *sorted(cuts), len(self.log)]

    def _check_loaded(self, machine: GroupCoordinator) -> None:
        """What was left out must make no difference."""
        whole = GroupCoordinator(ClassicGroupSetting(), OffsetSetting(), str, self.image, lambda _: self.setting)
        for key, value in self.log:
            whole.replay(decode_record(key, value))
        assert _state(machine) == _state(whole)

    def new_id(self) -> str:
        return f"id{next(self._ids)}"

    def restart(self, down_ms: int) -> None:
        """Kill the coordinator; whoever waits for a reply waits in vain."""
        self.note(f"coordinator dies for {down_ms} ms")
        self.restart_count += 1
        self.is_up = False
        self._incarnation += 1
        self.clock.after(down_ms, self._come_back)

    def _come_back(self) -> None:
        if not self.is_up:
            self.is_up = True
            self._load()
            self.note(f"coordinator is back after {len(self.log)} records")

    def _carry_out(self, decision: Decision) -> None:
        for timer in decision.timers:
            self._timers.pop(timer.key, None)
            if timer.at_ms is not None:
                self._timers[timer.key] = timer.at_ms
                self._arm(timer.key, timer.at_ms)
        random = self.clock.random
        if decision.records and random.random() < self.trouble.append_failure:
            self._fail(decision, ErrorCode.NOT_ENOUGH_REPLICAS)
            return
        for encoded in map(encode_record, decision.records):
            self.log.append(encoded)
            self.machine.replay(decode_record(*encoded))
        self._batch_ends.append(len(self.log))
        for reply in decision.replies:
            self._send(reply.token, reply.response)

    def _fail(self, decision: Decision, error: ErrorCode) -> None:
        self.note(f"an append of {len(decision.records)} records fails")
        if decision.failed is not None:
            self._carry_out(decision.failed(error))
            return
        for reply in decision.replies:
            self._send(reply.token, refusal(reply.token, error))

    def _arm(self, key: tuple[str, ...], at_ms: int) -> None:
        incarnation = self._incarnation

        def fire() -> None:
            if self._incarnation == incarnation and self._timers.get(key) == at_ms:
                del self._timers[key]
                self._carry_out(self.machine.on_timer(self.clock.now_ms, key))

        self.clock.after(max(0, at_ms - self.clock.now_ms), fire)

    # The network.

    def _latency_ms(self) -> int:
        return self.clock.random.randint(*self.trouble.latency_ms)

    def _is_lost(self) -> bool:
        return self.clock.random.random() < self.trouble.loss

    def ask(self, name: str, message: Message, reply: Callable[[Any], None], timeout_ms: int, version: int) -> Request:
        """Send a request; `reply` is called with the response, or with None when the time is over."""
        request = Request(message, reply)
        if not self._is_lost():
            self.clock.after(self._latency_ms(), lambda: self._receive(name, request, version))
        self.clock.after(timeout_ms, lambda: self._answer(request, None))
        return request

    def _receive(self, name: str, request: Request, version: int) -> None:
        if not self.is_up or request.answered:
            return
        try:
            self._carry_out(self._decide(Caller(name, "/127.0.0.1", version), request))
        except ApiError as error:
            self._send(request, refusal(request, error.code))

    def _decide(self, caller: Caller, request: Request) -> Decision:
        now_ms, machine = self.clock.now_ms, self.machine
        match request.message:
            case ConsumerGroupHeartbeatRequest() as message:
                return machine.decide_consumer_heartbeat(now_ms, request, caller, message)
            case JoinGroupRequest() as message:
                return machine.decide_join(now_ms, request, caller, message)
            case SyncGroupRequest() as message:
                return machine.decide_sync(now_ms, request, message)
            case HeartbeatRequest() as message:
                return machine.decide_heartbeat(now_ms, request, message)
            case LeaveGroupRequest() as message:
                return machine.decide_leave(now_ms, request, message)
        raise AssertionError(request.message)

    def _send(self, request: object, response: Message) -> None:
        """A reply leaves when the log is committed, a little later; it is lost with the coordinator."""
        assert isinstance(request, Request)
        incarnation = self._incarnation
        if not self._is_lost():
            self.clock.after(
                self._latency_ms(),
                lambda: self._answer(request, response) if self._incarnation == incarnation else None,
            )

    @staticmethod
    def _answer(request: Request, response: Message | None) -> None:
        if not request.answered:
            request.answered = True
            request.reply(response)

    def commit(
        self,
        name: str,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partition: tuple[str, int],
    ) -> bool:
        """Have a commit decided on the spot, so that who has what is the same for coordinator and checker."""
        topic, index = partition
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=self.image.topics[topic].topic_id,
                    partitions=[OffsetCommitRequestPartition(partition_index=index, committed_offset=1)],
                )
            ],
        )
        if not self.is_up:
            return False
        try:
            caller = Caller(name, "/127.0.0.1", 9)
            decision = self.machine.decide_commit(self.clock.now_ms, None, caller, request)
        except ApiError:
            return False
        reply = decision.replies.pop().response
        self._carry_out(decision)
        assert isinstance(reply, OffsetCommitResponse)
        return reply.topics[0].partitions[0].error_code == ErrorCode.NONE

    # Topics.

    def make_topic(self, name: str, count: int) -> None:
        """Create a topic or let it grow."""
        created = name not in self.image.topics
        topic_id = UUID(bytes=name.encode().ljust(16, b"\0"))
        self.image.replay(TopicRecord(name, topic_id, ((0,),) * count))
        self.machine.on_topics(self.clock.now_ms, created=created)
        self.note(f"topic {name} has {count} partitions")

    def note(self, text: str) -> None:
        """Remember what happened, for whoever has to find out why."""
        self.trace.append(f"{(self.clock.now_ms - START_MS) / 1000:9.3f} {text}")


def refusal(request: object, error: ErrorCode) -> Message:
    """The answer to a request that carries nothing but an error."""
    assert isinstance(request, Request)
    answer = ANSWERS[type(request.message)]
    return answer(error_code=error)


def _state(machine: GroupCoordinator) -> dict[str, Any]:
    """All that a coordinator knows from its log, in an order of its own."""
    groups: dict[str, Any] = {}
    for group_id, group in machine.groups.items():
        if isinstance(group, ClassicGroup):
            groups[group_id] = described = describe_group(group)
            described.members.sort(key=lambda member: member.member_id)
        else:
            groups[group_id] = vars(group)
    return {"offsets": sorted(machine.offsets.store.entries(), key=lambda entry: entry[:3]), **groups}
