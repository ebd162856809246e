"""The state of a classic group.

Theory of operation. The members of a classic group divide the work among themselves; the coordinator only
keeps them in step, one *generation* after another.

    Empty ──join──▶ PreparingRebalance ──all have joined, or time is over──▶ CompletingRebalance
      ▲                 ▲      │ nobody is left                                │ the leader hands in
      │                 │      ▼                                               │ everyone's assignment
      └─────────────────┼── (Empty)                                            ▼
                        └──── somebody joins, leaves or dies ────────────── Stable

In PreparingRebalance the coordinator waits for every member to join again. It then chooses the protocol that
all know and most prefer, makes one member the leader and tells it who the members are. In CompletingRebalance
everybody waits with SyncGroup until the leader has brought the assignments, which go into the log; only then
is the generation real, and the group Stable.

The log holds generations alone: one record with the members, their subscriptions and their assignments.
Replaying it makes a group Stable, or Empty if it has no members. A group that is in the middle of the next
rebalance is further than its log and is not set back by it. All else is soft: who waits for which reply,
members that have an id and have not joined (KIP-394), and everything that has a deadline.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from runnel.base.invariant import invariant
from runnel.machines.decision import Token
from runnel.machines.group.classic_member import ClassicGroupMember, Protocols, member_of_record
from runnel.machines.group.classic_subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from runnel.machines.group.group import CheckPartition, CommittedOffset, GroupType
from runnel.machines.group.record.classic import GroupMetadataKey, GroupMetadataValue
from runnel.machines.log_record import Record
from runnel.protocol.errors import ApiError, ErrorCode


class ClassicState(StrEnum):
    """The states that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"  # only in descriptions of groups that do not exist


class ClassicGroup:
    """Members, generation, and who waits for what."""

    def __init__(self, group_id: str, now_ms: int | None = None) -> None:
        self.group_id = group_id
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.state = ClassicState.EMPTY
        self.state_since_ms = now_ms
        self.subscribed: frozenset[str] | None = None
        # Soft state.
        self.previous_state = ClassicState.DEAD
        self.joining: dict[str, Token] = {}
        self.syncing: dict[str, Token] = {}
        self.pending_join: set[str] = set()
        self.pending_sync: set[str] = set()
        self.initial_delay: tuple[int, int] | None = None  # how long it is, and how much longer it may get
        self.new_member_added = False
        self._votes: Counter[str] = Counter()

    # What it is.

    @property
    def group_type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def protocol_name(self) -> str:
        return self.protocol_type or ""

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def may_expire(self) -> bool:
        return self.is_empty and not self.pending_join

    @property
    def is_simple(self) -> bool:
        """Whether it only holds offsets of consumers that need no group; such a group has no record."""
        return self.protocol_type is None and self.may_expire

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending_join

    def is_leader(self, member_id: str) -> bool:
        return self.leader is not None and self.leader == member_id

    def is_subscribed_to(self, topic: str) -> bool:
        return self.uses_consumer_protocol if self.subscribed is None else topic in self.subscribed

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member with these protocols can be in the group."""
        if self.is_empty:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and any(self._votes[name] == len(self.members) for name in names)

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raise ApiError unless it is a member; one whose instance id another took over is fenced (KIP-345)."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is not None and current != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"{instance_id} is another member by now")
            if current is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}")
        if member_id not in self.members:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, "the member is not in the group")

    # Who is in it.

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.leader = self.leader or member.member_id
        self.members[member.member_id] = member
        self._votes.update(_names(member.protocols))
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Forget a member, or an id that was given out and not used; who waits for a reply must have one by now."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._votes.subtract(_names(member.protocols))
            if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
                del self.static_members[member.instance_id]
        invariant(member_id not in self.joining, "a member goes while it waits for its join")
        if self.is_leader(member_id):
            self.leader = next(iter(self.members), None)
        self.syncing.pop(member_id, None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def update(self, member: ClassicGroupMember, protocols: Protocols, rebalance_ms: int, session_ms: int) -> None:
        """Take over what a member says when it joins again."""
        self._votes.subtract(_names(member.protocols))
        member.protocols = protocols
        self._votes.update(_names(protocols))
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def rename(self, old_id: str, new_id: str) -> ClassicGroupMember:
        """Give a static member that came back its new id, in its old place."""
        member = self.members[old_id]
        self.members = {new_id if key == old_id else key: value for key, value in self.members.items()}
        member.member_id = new_id
        if self.is_leader(old_id):
            self.leader = new_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        return member

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one of those who joined; False if nobody did."""
        if self.leader is None or self.leader in self.joining:
            return self.leader is not None
        joined = next((member_id for member_id in self.members if member_id in self.joining), None)
        if joined is not None:
            self.leader = joined
        return joined is not None

    # How it goes on.

    def transition(self, state: ClassicState, now_ms: int) -> None:
        self.previous_state, self.state, self.state_since_ms = self.state, state, now_ms

    def start_generation(self, now_ms: int) -> None:
        """All who are to come have joined: the next generation begins, or the group is empty."""
        self.generation += 1
        self.protocol = self.choose_protocol() if self.members else None
        self._note_subscriptions()
        self.transition(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now_ms)
        self.pending_sync.clear()

    def choose_protocol(self) -> str:
        """What all members know and most of them like best; among equals, what the first member likes."""
        candidates = {name for name, count in self._votes.items() if count == len(self.members)}
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(name for name, _ in member.protocols if name in candidates)] += 1
        return votes.most_common(1)[0][0]

    def _note_subscriptions(self) -> None:
        if not self.uses_consumer_protocol:
            self.subscribed = None
        else:
            self.subscribed = subscribed_topics(m.metadata(self.protocol) or b"" for m in self.members.values())

    # What is in the log.

    def to_record(self, assignments: Mapping[str, bytes]) -> Record:
        """The generation with these assignments."""
        protocol = self.protocol or ""
        members = [member.to_record(protocol, assignments.get(key, b"")) for key, member in self.members.items()]
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
            members=members,
        )
        return Record(GroupMetadataKey(group=self.group_id), value)

    def to_creation_record(self) -> Record:
        """The group before anything has happened in it."""
        since_ms = -1 if self.state_since_ms is None else self.state_since_ms
        value = GroupMetadataValue(protocol_type="", protocol=None, leader=None, current_state_timestamp=since_ms)
        return Record(GroupMetadataKey(group=self.group_id), value)

    def tombstones(self) -> list[Record]:
        return [Record(GroupMetadataKey(group=self.group_id), None)]

    def replay(self, value: GroupMetadataValue) -> None:
        """Be in the generation that a record tells of, unless the next one is on its way."""
        if self.state is ClassicState.PREPARING_REBALANCE:
            return
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        for member_id in self.members.keys() - {member.member_id for member in value.members}:
            self.remove(member_id)
        for listed in value.members:
            self._replay_member(member_of_record(listed, value.protocol), value)
        self.leader = value.leader
        self._note_subscriptions()
        self.state = ClassicState.STABLE if self.members else ClassicState.EMPTY
        self.state_since_ms = None if value.current_state_timestamp == -1 else value.current_state_timestamp

    def _replay_member(self, loaded: ClassicGroupMember, value: GroupMetadataValue) -> None:
        member = self.members.get(loaded.member_id)
        if member is None or member.metadata(value.protocol) != loaded.metadata(value.protocol):
            self.remove(loaded.member_id)
            self.add(loaded, value.protocol_type)
        else:
            # It is here with all of its protocols, of which the record keeps only one.
            member.assignment = loaded.assignment

    # What may be done to it.

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,  # noqa: ARG002 — for other kinds of groups
        *,
        in_transaction: bool = False,
    ) -> CheckPartition | None:
        if generation < 0 and self.is_empty:
            return None  # from an administrator, or a consumer that assigns its partitions itself
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"the generation is {self.generation}")
        elif not in_transaction and not self.is_empty:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, "only members may commit while there are some")
        if not in_transaction and self.state is ClassicState.COMPLETING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        return None

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Everybody may read the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        if not self.is_empty and not self.uses_consumer_protocol:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        if not self.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def unused_since_ms(self, committed: CommittedOffset) -> int | None:
        if self.protocol_type is None:
            return committed.commit_timestamp_ms
        if self.is_empty:
            return committed.commit_timestamp_ms if self.state_since_ms is None else self.state_since_ms
        if self.uses_consumer_protocol and self.subscribed is not None and self.state is ClassicState.STABLE:
            return committed.commit_timestamp_ms
        return None


def _names(protocols: Protocols) -> Iterable[str]:
    return (name for name, _ in protocols)
