"""A consumer process that speaks the new protocol, as Kafka's own client behaves."""

import re
from collections.abc import Iterable

from tests.scenarios.group_check import Checker, Partition
from tests.scenarios.group_process import GroupProcess
from tests.scenarios.group_world import World

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

REQUEST_TIMEOUT_MS = 3_000
OUT = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}


class ConsumerProcess(GroupProcess):
    """Sends heartbeats, lets go of what is taken from it and takes what is given to it."""

    def __init__(
        self,
        world: World,
        checker: Checker,
        name: str,
        group_id: str,
        *,
        topics: Iterable[str] = (),
        regex: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
        letting_go_ms: tuple[int, int] = (0, 2_000),
    ) -> None:
        super().__init__(world, checker, name, group_id, instance_id)
        self.topics, self.regex, self.assignor = frozenset(topics), regex, assignor
        self.letting_go_ms = letting_go_ms
        self.member_id = f"{name}-{world.new_id()}"
        self.epoch = 0
        self.target: set[Partition] | None = None
        self.is_leaving = False
        self._letting_go = False
        self._life = 0
        self._reported: set[Partition] | None = None
        self._asking = False
        self._full = True
        checker.processes.append(self)
        self._beat()

    def wants(self, topic: str) -> bool:
        return topic in self.topics or (self.regex is not None and re.fullmatch(self.regex, topic) is not None)

    # What happens to it.

    @property
    def epoch_or_generation(self) -> int:
        return self.epoch

    def go_on(self) -> None:
        self._beat()

    def leave(self) -> None:
        """Let go of everything, then say goodbye; a static member keeps its place."""
        self.world.note(f"{self.name} leaves")
        self.owned = set()
        self.is_leaving = True
        epoch = -2 if self.instance_id is not None else -1
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        self.world.ask(self.name, request, lambda _: None, REQUEST_TIMEOUT_MS, 1)
        self.is_alive = False

    # Heartbeats.

    def _beat(self) -> None:
        if not self.is_alive or self.is_paused or self._asking:
            return
        full = self._full or self.epoch == 0
        report = set() if self.epoch == 0 else self.owned if full or self.owned != self._reported else None
        if report is not None:
            self._reported = set(report)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=30_000 if full else -1,
            subscribed_topic_names=sorted(self.topics) if full else None,
            subscribed_topic_regex=(self.regex or "") if full else None,
            server_assignor=self.assignor if full else None,
            topic_partitions=None if report is None else self._by_topic(report),
        )
        self._asking = True
        life = self._life
        self.world.ask(self.name, request, lambda reply: self._heard(life, reply), REQUEST_TIMEOUT_MS, 1)

    def _by_topic(self, partitions: set[Partition]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(partitions):
            by_topic.setdefault(topic, []).append(index)
        topics = self.world.image.topics
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topics[name].topic_id, partitions=indexes)
            for name, indexes in by_topic.items()
        ]

    def _heard(self, life: int, reply: ConsumerGroupHeartbeatResponse | None) -> None:
        self._asking = False
        if not self.is_alive or life != self._life:
            self._again(10)
            return
        if reply is None:  # lost: say everything the next time
            self._full = True
            self._again(100)
        elif reply.error_code in OUT:
            self._lose(ErrorCode(reply.error_code))
        elif reply.error_code:
            self._full = True
            self._again(500)
        else:
            self._full = False
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                by_id = self.world.image.topics_by_id
                self.target = {
                    (by_id[topic.topic_id].name, index)
                    for topic in reply.assignment.topic_partitions
                    for index in topic.partitions
                }
            self._reconcile()
            self._again(5_000)

    def _again(self, wait_ms: int) -> None:
        life = self._life
        self.world.clock.after(wait_ms, lambda: self._beat() if life == self._life else None)

    def _lose(self, error: ErrorCode) -> None:
        """It is out: nothing is its own any more, and it starts again."""
        self.world.note(f"{self.name} hears {error.name} and lets go of {sorted(self.owned)}")
        self.owned, self.target, self.epoch = set(), None, 0
        self._letting_go = False
        self._life += 1
        self._again(50)

    # Reconciliation.

    def _reconcile(self) -> None:
        if self.target is None or self._letting_go:
            return
        target, self.target = self.target, None
        if self.owned - target:
            self._letting_go = True
            life = self._life
            wait_ms = self.world.clock.random.randint(*self.letting_go_ms)
            self.world.clock.after(wait_ms, lambda: self._let_go(life, target))
        elif target - self.owned:
            self._take(target)

    def _let_go(self, life: int, target: set[Partition]) -> None:
        if life != self._life or not self.is_alive:
            return
        if self.is_paused:
            self.world.clock.after(1_000, lambda: self._let_go(life, target))
            return
        self._letting_go = False
        self.owned &= target
        self._take(target)
        self._reconcile()
        self._beat()

    def _take(self, target: set[Partition]) -> None:
        gained = target - self.owned
        self.owned |= gained
        self.world.note(f"{self.name}@{self.epoch} has {sorted(self.owned)}")
        self.checker.gained(self, gained)
