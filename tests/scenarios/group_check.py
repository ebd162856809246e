"""What must be true of groups, whatever goes wrong.

*Safety*: of the processes that are members in the eyes of the coordinator, no two have the same partition. A
process has a partition from when it is told of it until it has let go of it, dies, or learns that it is out.
A process that was thrown out and does not know it yet may still believe that it has some; it is no member,
and what it commits must be refused.

*Liveness*: when nothing goes wrong any more, each partition of each topic that somebody wants ends up with
exactly one process that wants it, and everybody knows of the same generation.
"""

from collections.abc import Iterable
from typing import Protocol

from tests.scenarios.group_world import World

from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.consumer.group import ConsumerGroup

Partition = tuple[str, int]


class Violation(AssertionError):
    """Something happened that must not."""


class Process(Protocol):
    """A consumer, as the checker sees it."""

    name: str
    group_id: str
    member_id: str
    owned: set[Partition]
    is_alive: bool

    def wants(self, topic: str) -> bool: ...


class Checker:
    """Watches all processes of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.processes: list[Process] = []
        self.gain_count = 0
        self.commit_count = 0
        self.refused_commit_count = 0

    def members(self, group_id: str) -> list[Process]:
        """The living processes that the coordinator counts as members."""
        group = self.world.machine.groups.get(group_id)
        known = group.members.keys() if isinstance(group, ClassicGroup | ConsumerGroup) else ()
        return [
            process
            for process in self.processes
            if process.is_alive and process.group_id == group_id and process.member_id in known
        ]

    def gained(self, process: Process, partitions: Iterable[Partition]) -> None:
        """A process was told that it has these partitions, and believes it."""
        gained = set(partitions)
        self.gain_count += len(gained)
        members = self.members(process.group_id)
        if process not in members:
            return
        for other in members:
            if other is not process and (both := gained & other.owned):
                self._fail(f"{process.name} gets {sorted(both)} of {process.group_id}, which {other.name} has")

    def commit_decided(self, process: Process, partition: Partition, taken: bool) -> None:
        """The coordinator took or refused a commit of a process for a partition that it believes to have."""
        if not taken:
            self.refused_commit_count += 1
            return
        self.commit_count += 1
        for other in self.members(process.group_id):
            if other is not process and partition in other.owned:
                self._fail(f"{process.name} commits {partition} of {process.group_id}, which {other.name} has")

    def _fail(self, text: str) -> None:
        self.world.note(f"VIOLATION {text}")
        raise Violation(text)

    def check_converged(self, group_id: str) -> None:
        """Each partition that somebody wants is with one process that wants it."""
        living = [process for process in self.processes if process.is_alive and process.group_id == group_id]
        for name, topic in self.world.image.topics.items():
            wanting = [process for process in living if process.wants(name)]
            for index in range(topic.partition_count if wanting else 0):
                owners = [process.name for process in living if (name, index) in process.owned]
                if len(owners) != 1 or owners[0] not in {process.name for process in wanting}:
                    self._fail(f"{name}-{index} of {group_id} is with {owners} in the end")
        if len(self.members(group_id)) != len(living):
            self._fail(f"not every process of {group_id} is a member in the end")
        group = self.world.machine.groups.get(group_id)
        if living and (group is None or group.state_name != "Stable"):
            self._fail(f"{group_id} is {group and group.state_name} in the end")
