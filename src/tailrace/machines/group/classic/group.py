"""A classic group: its members, its generation, and the requests that wait. `state` has the theory of operation."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Self

from tailrace.base.invariant import invariant
from tailrace.machines.decision import Token
from tailrace.machines.group.classic.member import ClassicGroupMember, Protocols, member_of_record
from tailrace.machines.group.classic.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicState,
    may_follow,
)
from tailrace.machines.group.classic.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from tailrace.machines.group.group import CheckPartition, CommittedOffset, GroupType
from tailrace.machines.group.record.classic import GroupMetadataKey, GroupMetadataValue
from tailrace.machines.log_record import Record
from tailrace.protocol.errors import ApiError, ErrorCode


class ClassicGroup:
    """The state of one classic group. Decisions change a draft of it."""

    def __init__(self, group_id: str, now_ms: int | None = None) -> None:
        self.group_id = group_id
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.state = EMPTY
        self.state_since_ms = now_ms
        self.subscribed: frozenset[str] | None = None
        # Soft state.
        self.previous_state = DEAD
        self.joining: dict[str, Token] = {}
        self.syncing: dict[str, Token] = {}
        self.pending_join: dict[str, int] = {}  # member ids handed out and not used yet, with their session timeouts
        self.pending_sync: set[str] = set()
        self.initial_delay: tuple[int, int] | None = None  # the current delay, and by how much it may be extended
        self.new_member_added = False
        self._votes: Counter[str] = Counter()

    @classmethod
    def of_generation(
        cls, group_id: str, generation: int, protocol_type: str | None, members: Iterable[ClassicGroupMember]
    ) -> Self:
        """Make a group that is stable in this generation, or empty without members; the first member is the leader."""
        group = cls(group_id)
        for member in members:
            group.add(member, protocol_type)
        group.generation = generation
        group.protocol_type = protocol_type
        group.protocol = group.choose_protocol() if group.members else None
        group._note_subscriptions()
        group.state = STABLE if group.members else EMPTY
        return group

    @classmethod
    def of_record(cls, group_id: str, value: GroupMetadataValue) -> Self:
        """Load the generation in a record."""
        members = {member.member_id: member_of_record(member, value.protocol) for member in value.members}
        group = cls.of_generation(group_id, value.generation, value.protocol_type or None, members.values())
        group.protocol = value.protocol
        if value.leader in group.members:
            group.leader = value.leader
        group.state_since_ms = None if value.current_state_timestamp == -1 else value.current_state_timestamp
        return group

    def draft(self) -> Self:
        """Copy the group for a decision; the members are immutable and shared."""
        draft = type(self).__new__(type(self))
        vars(draft).update(vars(self))  # several times faster than copy.copy
        draft.members = dict(self.members)
        draft.static_members = dict(self.static_members)
        draft.joining = dict(self.joining)
        draft.syncing = dict(self.syncing)
        draft.pending_join = dict(self.pending_join)
        draft.pending_sync = set(self.pending_sync)
        draft._votes = self._votes.copy()
        return draft

    def check(self) -> None:
        """Check what is true of every group after a decision."""
        known = self.members.keys()
        invariant(self.joining.keys() <= known, f"{self.group_id}: a join of a client waits that is not a member")
        invariant(self.syncing.keys() <= known, f"{self.group_id}: a sync of a client waits that is not a member")
        invariant(self.pending_sync <= known, f"{self.group_id}: the sync of a client is due that is not a member")
        invariant(known.isdisjoint(self.pending_join), f"{self.group_id}: the id of a member counts as not used yet")
        invariant(known >= set(self.static_members.values()), f"{self.group_id}: an instance id has no member")
        invariant(
            self.leader in known if known else self.leader is None, f"{self.group_id}: the leader is not a member"
        )
        invariant(not known or not self.is_empty, f"{self.group_id}: an empty group has {len(known)} members")
        is_preparing = self.state is PREPARING_REBALANCE
        invariant(is_preparing or not self.joining, f"{self.group_id}: a join waits without a rebalance")
        invariant(
            self.state is COMPLETING_REBALANCE or not self.syncing,
            f"{self.group_id}: a sync waits, and the group waits for no assignments",
        )

    # Questions.

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
        return self.state is EMPTY

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def may_expire(self) -> bool:
        return self.is_empty and not self.pending_join

    @property
    def is_simple(self) -> bool:
        """Whether the group only holds offsets of consumers that assign their partitions themselves.

        Such a group has no record.
        """
        return self.protocol_type is None and self.may_expire

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the protocol type is `consumer`, so that the coordinator can read the subscriptions."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending_join

    def is_leader(self, member_id: str) -> bool:
        return self.leader is not None and self.leader == member_id

    def topics_of(self, member_id: str) -> frozenset[str] | None:
        """Return the topics that a member subscribes to, or None if its metadata cannot be decoded."""
        if not self.uses_consumer_protocol:
            return None
        return subscribed_topics([self.members[member_id].metadata(self.protocol) or b""])

    def is_subscribed_to(self, topic: str) -> bool:
        return self.uses_consumer_protocol if self.subscribed is None else topic in self.subscribed

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Return whether a member with these protocols can join the group."""
        if self.is_empty:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and any(self._votes[name] == len(self.members) for name in names)

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raise ApiError unless the member is in the group and still owns its instance id (KIP-345)."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is not None and current != member_id:
                raise ApiError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"member {member_id} was fenced: instance id {instance_id} belongs to member {current} now",
                )
            if current is None:
                raise ApiError(
                    ErrorCode.UNKNOWN_MEMBER_ID, f"no member of group {self.group_id} has instance id {instance_id}"
                )
        if member_id not in self.members:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} is not in group {self.group_id}")

    # Members.

    def add(self, member: ClassicGroupMember, protocol_type: str | None) -> None:
        """Add a member; the first one is the leader and sets the protocol type."""
        invariant(member.member_id not in self.members, f"{self.group_id}: {member.member_id} is added twice")
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.leader = self.leader or member.member_id
        self.members[member.member_id] = member
        self._votes.update(_names(member.protocols))
        self.pending_join.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member, or a member id that was handed out and not used; its requests must be answered before."""
        invariant(member_id not in self.joining, f"{self.group_id}: {member_id} is removed while its join waits")
        member = self.members.pop(member_id, None)
        if member is not None:
            self._withdraw_votes(member.protocols)
            if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
                del self.static_members[member.instance_id]
        if self.is_leader(member_id):
            self.leader = next(iter(self.members), None)
        self.syncing.pop(member_id, None)
        self.pending_join.pop(member_id, None)
        self.pending_sync.discard(member_id)

    def update(self, member_id: str, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """Replace the protocols and timeouts of a member that joins again."""
        member = self.members[member_id]
        self._withdraw_votes(member.protocols)
        self._votes.update(_names(protocols))
        self.members[member_id] = replace(
            member,
            protocols=protocols,
            rebalance_timeout_ms=rebalance_timeout_ms,
            session_timeout_ms=session_timeout_ms,
        )

    def _withdraw_votes(self, protocols: Protocols) -> None:
        for name in _names(protocols):
            self._votes[name] -= 1
            if not self._votes[name]:
                del self._votes[name]

    def rename(self, old_id: str, new_id: str) -> None:
        """Give a static member that came back its new member id, at its old place in the order of members."""
        invariant(new_id not in self.members, f"{self.group_id}: two members would have the id {new_id}")
        invariant(old_id not in self.joining, f"{self.group_id}: {old_id} is renamed while its join waits")
        renamed = replace(self.members[old_id], member_id=new_id)
        self.members = dict((new_id, renamed) if key == old_id else (key, one) for key, one in self.members.items())
        if self.is_leader(old_id):
            self.leader = new_id
        if renamed.instance_id is not None:
            self.static_members[renamed.instance_id] = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)

    def assign(self, assignments: dict[str, bytes]) -> None:
        """Give each member its assignment; a member that is not listed gets an empty one."""
        for member_id, member in self.members.items():
            self.members[member_id] = replace(member, assignment=assignments.get(member_id, b""))

    def elect_joined_leader(self) -> bool:
        """Elect a leader among the members that have joined; False if none has."""
        if self.leader not in self.joining:
            self.leader = next((member_id for member_id in self.members if member_id in self.joining), self.leader)
        return self.leader in self.joining

    # States and generations.

    def transition(self, state: ClassicState, now_ms: int) -> None:
        """Go to another state, which the table must allow."""
        invariant(may_follow(self.state, state), f"{self.group_id}: {state.value} after {self.state.value}")
        self.previous_state, self.state, self.state_since_ms = self.state, state, now_ms

    def start_generation(self, now_ms: int) -> None:
        """Start the next generation with the members that are left; without members the group is empty."""
        invariant(
            not self.members or self.leader in self.joining,
            f"{self.group_id}: {self.leader} would lead generation {self.generation + 1} and has not joined it",
        )
        self.generation += 1
        self.protocol = self.choose_protocol() if self.members else None
        self._note_subscriptions()
        self.transition(COMPLETING_REBALANCE if self.members else EMPTY, now_ms)
        self.pending_sync.clear()

    def choose_protocol(self) -> str:
        """Choose the protocol that all members support and most prefer; the first member decides a tie."""
        candidates = {name for name, count in self._votes.items() if count == len(self.members)}
        invariant(candidates, f"{self.group_id}: the members have no protocol in common")
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(name for name, _ in member.protocols if name in candidates)] += 1
        return votes.most_common(1)[0][0]

    def _note_subscriptions(self) -> None:
        if not self.uses_consumer_protocol:
            self.subscribed = None
        else:
            self.subscribed = subscribed_topics(m.metadata(self.protocol) or b"" for m in self.members.values())

    # Records.

    def to_record(self) -> Record:
        """Build the record of the current generation."""
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
            members=[member.to_record(self.protocol or "") for member in self.members.values()],
        )
        return Record(GroupMetadataKey(group=self.group_id), value)

    def to_creation_record(self) -> Record:
        """Build the record of a group before its first generation."""
        since_ms = -1 if self.state_since_ms is None else self.state_since_ms
        value = GroupMetadataValue(protocol_type="", protocol=None, leader=None, current_state_timestamp=since_ms)
        return Record(GroupMetadataKey(group=self.group_id), value)

    def tombstones(self) -> list[Record]:
        return [Record(GroupMetadataKey(group=self.group_id), None)]

    # Permissions.

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,  # for consumer groups alone
        *,
        in_transaction: bool = False,
    ) -> CheckPartition | None:
        if generation < 0 and self.is_empty:
            return None  # an admin client, or a consumer that assigns its partitions itself
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise ApiError(
                    ErrorCode.ILLEGAL_GENERATION,
                    f"generation {generation} of member {member_id} is not the generation {self.generation} of group"
                    f" {self.group_id}",
                )
        elif not in_transaction and not self.is_empty:
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id} has members, and only they may commit offsets"
            )
        if not in_transaction and self.state is COMPLETING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        return None

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow every client to read the offsets of a classic group."""

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
        if self.uses_consumer_protocol and self.subscribed is not None and self.state is STABLE:
            return committed.commit_timestamp_ms
        return None


def _names(protocols: Protocols) -> Iterable[str]:
    return (name for name, _ in protocols)
