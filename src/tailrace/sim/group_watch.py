"""The committed offsets of groups as brokers apply them: every commit, without a client that looks.

A coordinator applies the offset records of its log, first those that it loads and then its own, in the order of the
log. So its memory is what OffsetFetch returns, and everything here compares a commit with what the same coordinator
applied before; a deposed coordinator whose records are truncated later is judged by itself.

- An offset never goes back. No member asks for that: it starts at the committed offset, and reads on.
- A commit by another member than the last one comes from a later generation (or member epoch). In one generation a
  partition has one owner, and the commits of earlier owners are refused. In the consumer protocol the same member may
  commit with an older epoch (KIP-1251).
  A generation of the classic protocol counts from its first record on, which has the assignments. Until then every
  partition is with its former owner, and after a takeover another generation may have the same number.
- A static member has one owner at a time: once it has another member id, the former is fenced.
- In the consumer protocol the coordinator knows the owner of a partition until that has given it up, and has no two.
- A coordinator that takes over has applied every commit that was acknowledged before.

One decrease cannot be told from a good commit by a broker alone: a request that the network holds, and that arrives
after its client gave the connection up, repeated the commit and made a later one. It is counted, see `COUNTED`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID

from tailrace.machines.group.consumer.group import ConsumerGroup
from tailrace.machines.group.consumer.member import ConsumerMember
from tailrace.machines.group.coordinator import GroupCoordinator
from tailrace.machines.group.offset.coordinator import OffsetCoordinator
from tailrace.machines.group.record.classic import GroupMetadataKey, GroupMetadataValue
from tailrace.machines.group.record.consumer import ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupMetadataKey
from tailrace.machines.group.record.offset import OffsetCommitKey, OffsetCommitValue
from tailrace.machines.log_replay import LogEntry, TransactionEnd
from tailrace.protocol.messages.group_offset import OffsetCommitRequest, OffsetCommitResponse
from tailrace.records.batch import NO_PRODUCER_ID
from tailrace.runtime.group.coordinator import GroupShard
from tailrace.server.context import RequestContext
from tailrace.server.group_caller import ask_coordinator
from tailrace.server.handlers import group_offset
from tailrace.sim.history import Recorder
from tailrace.sim.process import PROCESS
from tailrace.sim.transport import SimTransport

OFFSET_WENT_BACK = "offset went back"
LATE_COMMIT = "late commit"
LATE_COMMIT_BEHIND_END = "late commit behind the end of its connection"
TWO_OWNERS = "two owners commit"
OLD_OWNER = "an old owner commits"
FENCED_INSTANCE = "a fenced static member commits"
OWNED_TWICE = "a partition is given to a second member"
LOST_OFFSET = "an acknowledged offset is lost"

COUNTED = frozenset({LATE_COMMIT, LATE_COMMIT_BEHIND_END})
"""The problems that are counted; all others are violations."""

_UNKNOWN_GENERATION = -1
_Place = tuple[str, str, int]
"""A group, and a topic with a partition."""


class Applied(NamedTuple):
    """One applied commit of one partition, with the member that sent it."""

    place: _Place
    topic_id: UUID
    offset: int
    member_id: str = ""
    instance_id: str | None = None
    generation: int = _UNKNOWN_GENERATION
    lateness: str = ""  # the kind of problem if the client gave the request up before it was applied

    @property
    def owner(self) -> str:
        return self.instance_id or self.member_id

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.owner or 'no member'} in generation {self.generation}"


class Problem(NamedTuple):
    """A problem of a commit, in relation to the one before it."""

    kind: str
    place: _Place
    text: str

    def __str__(self) -> str:
        group, topic, partition = self.place
        return f"Violation: {self.kind}: {topic}-{partition} of group {group}: {self.text}"


class CommitOrder:
    """The applied commits of one coordinator, in their order."""

    def __init__(self) -> None:
        self._last: dict[_Place, Applied] = {}
        self._fenced: dict[_Place, set[str]] = {}
        self._generations: dict[str, int] = {}  # of classic groups, as written

    def apply(self, applied: Applied) -> Problem | None:
        """Add a commit, and return what is wrong with it."""
        written = self._generations.get(applied.place[0], applied.generation)
        applied = applied._replace(generation=min(applied.generation, written))
        last = self._last.get(applied.place)
        self._last[applied.place] = applied
        if last is None or last.topic_id != applied.topic_id:
            self._fenced.pop(applied.place, None)
            return None
        kind = self._judge(last, applied)
        return Problem(kind, applied.place, f"{applied} after {last}") if kind else None

    def _judge(self, last: Applied, applied: Applied) -> str:
        if _UNKNOWN_GENERATION not in (last.generation, applied.generation):
            if applied.owner != last.owner and applied.generation < last.generation:
                return OLD_OWNER
            if applied.owner != last.owner and applied.generation == last.generation:
                return TWO_OWNERS
            if applied.owner == last.owner and applied.member_id != last.member_id:
                fenced = self._fenced.setdefault(applied.place, set())
                fenced.add(last.member_id)
                if applied.member_id in fenced:
                    return FENCED_INSTANCE
        if applied.offset < last.offset:
            return applied.lateness or OFFSET_WENT_BACK
        return ""

    def forget(self, place: _Place) -> None:
        """Forget the commits of a partition, whose offset was deleted."""
        self._last.pop(place, None)

    def begin_generation(self, group: str, generation: int) -> None:
        """Record a generation of a classic group, with its assignments."""
        self._generations[group] = generation

    def begin_again(self, group: str) -> None:
        """Record that a group was deleted, or changes its protocol; it may count its generations from the start."""
        self._generations.pop(group, None)
        for place, last in self._last.items():
            if place[0] == group:
                self._last[place] = last._replace(generation=_UNKNOWN_GENERATION)


class _Cause(NamedTuple):
    """The request that a coordinator decides about now."""

    token: object
    request: OffsetCommitRequest
    lateness: str


class _Acknowledged(NamedTuple):
    """The newest acknowledged commit of a partition, by its place in the log."""

    record_offset: int
    leader_epoch: int
    applied: Applied


class GroupWatch:
    """Watches the group coordinators of all brokers."""

    def __init__(self, count: Callable[[str], None], fail: Callable[[str], None], recorder: Recorder) -> None:
        self._count = count
        self._fail = fail
        self._recorder = recorder
        self._orders: dict[GroupCoordinator, CommitOrder] = {}
        self._lateness = ""
        self._cause: _Cause | None = None
        self._known: dict[tuple[str, int, OffsetCommitValue], Applied] = {}
        self._waiting: dict[object, list[tuple[GroupShard, int, Applied]]] = {}
        self._acknowledged: dict[str, dict[_Place, _Acknowledged]] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe all coordinators whose program is simulated."""
        ask, decide = ask_coordinator, OffsetCoordinator.decide_commit
        replay, answer, load = GroupShard._replay, GroupShard._answer, GroupShard.load

        async def watched_ask(ctx: RequestContext, group_id: str, kind: Any, decide: Any, *rest: Any) -> Any:
            def decide_here(machine: Any, now_ms: int, token: Any) -> Any:
                self._lateness = _lateness(ctx) if PROCESS.get() is not None else ""
                return decide(machine, now_ms, token)

            return await ask(ctx, group_id, kind, decide_here, *rest)

        def watched_decide(offsets: Any, now_ms: int, token: Any, caller: Any, request: Any) -> Any:
            if PROCESS.get() is not None:
                self._cause = _Cause(token, request, self._lateness)
            return decide(offsets, now_ms, token, caller, request)

        def watched_replay(shard: GroupShard, entry: Any) -> None:
            replay(shard, entry)
            if PROCESS.get() is not None:
                self.replayed(shard, entry)

        def watched_answer(shard: GroupShard, replies: Any) -> None:
            for reply in replies if PROCESS.get() is not None else ():
                self._answered(reply.token, reply.response)
            answer(shard, replies)

        async def watched_load(shard: GroupShard) -> None:
            await load(shard)
            if shard.is_loaded and PROCESS.get() is not None:
                self._loaded(shard)

        with (
            patch.object(group_offset, "ask_coordinator", watched_ask),
            patch.object(OffsetCoordinator, "decide_commit", watched_decide),
            patch.object(GroupShard, "_replay", watched_replay),
            patch.object(GroupShard, "_answer", watched_answer),
            patch.object(GroupShard, "load", watched_load),
        ):
            yield

    def replayed(self, shard: GroupShard, entry: "LogEntry[Any] | TransactionEnd") -> None:
        """Record what a coordinator has applied, live or from its log."""
        if isinstance(entry, TransactionEnd) or entry.producer_id != NO_PRODUCER_ID:
            return
        key, value = entry.record.key, entry.record.value
        order = self._orders.setdefault(shard.machine, CommitOrder())
        if isinstance(key, GroupMetadataKey | ConsumerGroupMetadataKey) and value is None:
            order.begin_again(key.group if isinstance(key, GroupMetadataKey) else key.group_id)
        elif isinstance(value, GroupMetadataValue):
            order.begin_generation(key.group, value.generation)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey) and value is not None and shard.is_loaded:
            for problem in find_owned_twice(shard.machine, key.group_id, key.member_id):
                self._report(problem)
        elif isinstance(key, OffsetCommitKey):
            self._replayed_offset(shard, order, key, value, entry.offset)

    def _replayed_offset(
        self, shard: GroupShard, order: CommitOrder, key: OffsetCommitKey, value: OffsetCommitValue | None, at: int
    ) -> None:
        place, name = (key.group, key.topic, key.partition), shard.partition.name
        acknowledged = self._acknowledged.setdefault(name, {})
        if value is None:
            order.forget(place)
            if place in acknowledged and acknowledged[place].record_offset < at:
                del acknowledged[place]
            return
        if not shard.is_loaded:
            order.apply(self._known.get(_record_key(name, at, value), Applied(place, value.topic_id, value.offset)))
            return
        applied = self._applied(place, value)
        self._known[_record_key(name, at, value)] = applied
        if self._cause is not None:
            self._waiting.setdefault(self._cause.token, []).append((shard, at, applied))
        self._count("group commit")
        self._record(applied)
        if problem := order.apply(applied):
            self._report(problem)

    def _record(self, applied: Applied) -> None:
        group, topic, partition = applied.place
        process = PROCESS.get()
        name = "-" if process is None else process.name
        place = f"{topic}-{partition}"
        self._recorder.invoke(name, "applied", group=group, partition=place, offset=applied.offset).ok()

    def _applied(self, place: _Place, value: OffsetCommitValue) -> Applied:
        if self._cause is None:
            return Applied(place, value.topic_id, value.offset)
        request = self._cause.request
        return Applied(
            place,
            value.topic_id,
            value.offset,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            self._cause.lateness,
        )

    def _answered(self, token: object, response: object) -> None:
        """Record that commits are acknowledged."""
        if isinstance(response, OffsetCommitResponse):
            for shard, at, applied in self._waiting.pop(token, ()):
                known = self._acknowledged.setdefault(shard.partition.name, {})
                if applied.place not in known or known[applied.place].record_offset < at:
                    known[applied.place] = _Acknowledged(at, shard._leader_epoch, applied)

    def _loaded(self, shard: GroupShard) -> None:
        """Check what a coordinator that takes over has read: what was acknowledged before, and no two owners.

        Only its last state counts: if the log is compacted meanwhile, it reads the first records as they were before.
        """
        self._count("group load")
        for group in shard.machine.groups.values():
            for member_id in group.members if isinstance(group, ConsumerGroup) else ():
                for problem in find_owned_twice(shard.machine, group.group_id, member_id):
                    self._report(problem)
        for place, known in self._acknowledged.get(shard.partition.name, {}).items():
            found = shard.machine.offsets.store.get(*place)
            is_there = found is not None and found.record_offset >= known.record_offset
            if known.leader_epoch < shard._leader_epoch and not is_there:
                seen = "nothing" if found is None else f"offset {found.offset}"
                self._report(Problem(LOST_OFFSET, place, f"{seen} was loaded after {known.applied}"))

    def _report(self, problem: Problem) -> None:
        if problem.kind in COUNTED:
            self._count(problem.kind)
        else:
            self._fail(str(problem))


def find_owned_twice(machine: GroupCoordinator, group_id: str, member_id: str) -> Iterator[Problem]:
    """Find the partitions of a member that another one owns, too, or has still to give up."""
    group = machine.groups.get(group_id)
    if not isinstance(group, ConsumerGroup) or member_id not in group.members:
        return
    member = group.members[member_id]
    own = _partitions(member)
    for other in group.members.values():
        is_same = other.member_id == member_id or (member.instance_id and other.instance_id == member.instance_id)
        for topic_id, index in sorted(own & _partitions(other)) if not is_same else ():
            text = f"{member_id} at epoch {member.epoch} and {other.member_id} at epoch {other.epoch}"
            yield Problem(OWNED_TWICE, (group_id, str(topic_id), index), text)


def _partitions(member: ConsumerMember) -> set[tuple[UUID, int]]:
    places = (member.assigned, member.pending_revocation)
    return {(topic_id, index) for place in places for topic_id, indexes in place.items() for index in indexes}


def _record_key(log_name: str, at: int, value: OffsetCommitValue) -> Any:
    """Name a record, even if another leader wrote another one at the same offset."""
    return log_name, at, value.offset, value.commit_timestamp, value.topic_id


def _lateness(ctx: RequestContext) -> str:
    """Return the kind of a late commit if the client has given up the connection of its request, or an empty text."""
    transport = ctx.connection._transport
    if not isinstance(transport, SimTransport) or not transport.peer.is_closing():
        return ""
    return LATE_COMMIT_BEHIND_END if ctx.connection._ending is not None else LATE_COMMIT
