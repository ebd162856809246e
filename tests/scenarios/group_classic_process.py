"""A consumer process that speaks the classic protocol, eager or cooperative, as Kafka's own client behaves."""

from collections.abc import Iterable

from tests.scenarios.group_check import Checker, Partition
from tests.scenarios.group_process import GroupProcess
from tests.scenarios.group_world import World

from tailrace.client.group.assignor.assignor import Assignor, Claim
from tailrace.client.group.assignor.range import RangeAssignor
from tailrace.client.group.assignor.sticky import CooperativeStickyAssignor
from tailrace.protocol.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_versioned,
    encode_assignments,
    encode_versioned,
    flatten,
    group_by_topic,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

REQUEST_TIMEOUT_MS = 3_000
REBALANCE_TIMEOUT_MS = 30_000
SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_MS = 3_000


class ClassicProcess(GroupProcess):
    """Joins, asks for its assignment, sends heartbeats, and joins again when it is told to."""

    def __init__(
        self,
        world: World,
        checker: Checker,
        name: str,
        group_id: str,
        *,
        topics: Iterable[str],
        cooperative: bool = False,
        instance_id: str | None = None,
        letting_go_ms: tuple[int, int] = (0, 2_000),
    ) -> None:
        super().__init__(world, checker, name, group_id, instance_id)
        self.topics, self.letting_go_ms = frozenset(topics), letting_go_ms
        self.assignor: Assignor = CooperativeStickyAssignor() if cooperative else RangeAssignor()
        self.generation = -1
        self._life = 0  # grows with every join, so that what belongs to an older one is ignored
        self._protocol = self.assignor.name
        self._counts: dict[str, int] | None = None  # what the topics had when it divided them as the leader
        checker.processes.append(self)
        self._join()

    def wants(self, topic: str) -> bool:
        return topic in self.topics

    # What happens to it.

    @property
    def epoch_or_generation(self) -> int:
        return self.generation

    def go_on(self) -> None:
        self._beat(self._life)

    def leave(self) -> None:
        """Let go of everything, then say goodbye; a static member says nothing and keeps its place."""
        self.world.note(f"{self.name} leaves")
        self.owned = set()
        self.is_alive = False
        if self.instance_id is None:
            request = LeaveGroupRequest(
                group_id=self.group_id, members=[LeaveGroupRequestMember(member_id=self.member_id)]
            )
            self.world.ask(self.name, request, lambda _: None, REQUEST_TIMEOUT_MS, 5)

    # Join.

    def _rejoin(self) -> None:
        """Join again; an eager member lets go of everything first."""
        self._life += 1
        if self.owned and not self.assignor.is_cooperative:
            life = self._life
            wait_ms = self.world.clock.random.randint(*self.letting_go_ms)
            self.world.clock.after(wait_ms, lambda: self._let_all_go(life))
        else:
            self._join()

    def _let_all_go(self, life: int) -> None:
        if life == self._life and self.is_alive:
            self.owned = set()
            self._join()

    def _join(self) -> None:
        if not self.is_alive:
            return
        if self.is_paused:
            self._after(1_000, self._join)
            return
        self._life += 1
        life = self._life
        owned = tuple(sorted(self.owned))
        subscription = ConsumerProtocolSubscription(
            topics=sorted(self.topics),
            user_data=self.assignor.user_data(owned, self.generation),
            owned_partitions=group_by_topic(owned),
            generation_id=self.generation,
        )
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=self.assignor.name, metadata=encode_versioned(subscription))],
        )
        timeout_ms = REBALANCE_TIMEOUT_MS + 5_000
        self.world.ask(self.name, request, lambda reply: self._joined(life, reply), timeout_ms, 9)

    def _after(self, wait_ms: int, action: object) -> None:
        life = self._life
        self.world.clock.after(wait_ms, lambda: action() if life == self._life else None)  # type: ignore[operator]

    def _joined(self, life: int, reply: JoinGroupResponse | None) -> None:
        if life != self._life or not self.is_alive:
            return
        if reply is None:
            self._join()
        elif reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            self._join()
        elif reply.error_code:
            self._refused(ErrorCode(reply.error_code))
        else:
            self.member_id, self.generation = reply.member_id, reply.generation_id
            self._protocol = reply.protocol_name or ""
            self._counts = None
            self._sync(self._assign(reply) if reply.leader == reply.member_id else {})

    def _assign(self, reply: JoinGroupResponse) -> dict[str, bytes]:
        members = []
        for listed in reply.members:
            said = decode_versioned(ConsumerProtocolSubscription, listed.metadata)
            claim = Claim(said.user_data, tuple(flatten(said.owned_partitions)), said.generation_id)
            topics = frozenset(said.topics)
            members.append(self.assignor.read_member(listed.member_id, listed.group_instance_id, topics, claim))
        self._counts = self._count_partitions()
        return encode_assignments(self.assignor.assign(members, self._counts))

    def _count_partitions(self) -> dict[str, int]:
        return {name: topic.partition_count for name, topic in self.world.image.topics.items()}

    # Sync.

    def _sync(self, assignments: dict[str, bytes]) -> None:
        life = self._life
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self._protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=key, assignment=data) for key, data in assignments.items()
            ],
        )
        timeout_ms = REBALANCE_TIMEOUT_MS + 5_000
        self.world.ask(self.name, request, lambda reply: self._synced(life, reply), timeout_ms, 5)

    def _synced(self, life: int, reply: SyncGroupResponse | None) -> None:
        if life != self._life or not self.is_alive:
            return
        if reply is None:
            self._rejoin()
        elif reply.error_code:
            self._refused(ErrorCode(reply.error_code))
        else:
            given = set(decode_assignment(reply.assignment))
            if self.owned - given:  # only a cooperative member has any
                wait_ms = self.world.clock.random.randint(*self.letting_go_ms)
                self._take(self.owned | given)
                self._after(wait_ms, lambda: self._let_go(given))
            else:
                self._take(given)
            self._after(HEARTBEAT_MS, lambda: self._beat(life))

    def _let_go(self, given: set[Partition]) -> None:
        if self.is_alive:
            self.owned &= given
            self._rejoin()

    def _take(self, given: set[Partition]) -> None:
        gained = given - self.owned
        self.owned |= gained
        self.world.note(f"{self.name} {self.member_id}@{self.generation} has {sorted(self.owned)}")
        self.checker.gained(self, gained)

    # Heartbeats.

    def _beat(self, life: int) -> None:
        if life != self._life or not self.is_alive or self.is_paused:
            return
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self.world.ask(self.name, request, lambda reply: self._heard(life, reply), REQUEST_TIMEOUT_MS, 4)

    def _heard(self, life: int, reply: HeartbeatResponse | None) -> None:
        if life != self._life or not self.is_alive:
            return
        if reply is None:
            self._beat(life)
        elif reply.error_code:
            self._refused(ErrorCode(reply.error_code))
        elif self._counts is not None and self._counts != self._count_partitions():
            self._rejoin()  # the leader sees that there is more to divide
        else:
            self._after(HEARTBEAT_MS, lambda: self._beat(life))

    def _refused(self, error: ErrorCode) -> None:
        self.world.note(f"{self.name} {self.member_id}@{self.generation} hears {error.name}")
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin()
        elif error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.owned, self.generation = set(), -1
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._life += 1
            self._after(50, self._join)
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            self.kill()
        else:
            self._life += 1
            self._after(500, self._rejoin)
