"""What consumer processes of both protocols have in common in a simulation: they die, stand still and commit."""

from abc import ABC, abstractmethod

from tests.scenarios.group_check import Checker, Partition
from tests.scenarios.group_world import World


class GroupProcess(ABC):
    """A process with one consumer of a group."""

    def __init__(self, world: World, checker: Checker, name: str, group_id: str, instance_id: str | None) -> None:
        self.world, self.checker = world, checker
        self.name, self.group_id, self.instance_id = name, group_id, instance_id
        self.member_id = ""
        self.owned: set[Partition] = set()
        self.is_alive = True
        self.is_paused = False

    @property
    @abstractmethod
    def epoch_or_generation(self) -> int:
        """What its commits carry."""

    @abstractmethod
    def wants(self, topic: str) -> bool:
        """Tell whether the consumer subscribes to the topic."""

    @abstractmethod
    def go_on(self) -> None:
        """Send the heartbeat that is due after standing still."""

    def kill(self) -> None:
        self.world.note(f"{self.name} is killed")
        self.is_alive = False
        self.owned = set()

    def pause(self, wait_ms: int) -> None:
        """Stand still, and believe afterwards that no time has passed."""
        self.world.note(f"{self.name} stands still for {wait_ms} ms")
        self.is_paused = True
        self.world.clock.after(wait_ms, self._wake)

    def _wake(self) -> None:
        self.is_paused = False
        if self.is_alive:
            for partition in sorted(self.owned)[:1]:
                self.commit(partition)
            self.go_on()

    def commit(self, partition: Partition) -> None:
        """Commit for a partition that it believes to have."""
        taken = self.world.commit(
            self.name, self.group_id, self.member_id, self.instance_id, self.epoch_or_generation, partition
        )
        self.checker.commit_decided(self, partition, taken)
