"""Holding back replicas that catch up, so that moving partitions leaves room for everybody else (KIP-73).

Only what a topic names is held back, and only while it is not in sync: a follower that keeps up is what producers
wait for.
"""

from collections.abc import Callable, Sequence

from runnel.base.clock import Clock
from runnel.config.topic import TopicConfig
from runnel.runtime.partition import Partition
from runnel.storage.throttle import Throttle

EVERY_REPLICA = "*"


class ReplicationThrottle:
    """The rate of one direction, shared by all throttled replicas of a broker."""

    def __init__(
        self,
        broker_id: int,
        clock: Clock,
        bytes_per_second: Callable[[], int],
        replicas_of: Callable[[TopicConfig], Sequence[str]],
    ) -> None:
        """`replicas_of` is the option of a topic that names what is throttled, as PARTITION:BROKER or `*`."""
        self._broker_id = broker_id
        self._replicas_of = replicas_of
        self._throttle = Throttle(clock, lambda: max(bytes_per_second(), 1))

    def applies_to(self, partition: Partition) -> bool:
        """Whether the replica of a partition on this broker is to be held back."""
        named = self._replicas_of(partition.config)
        return bool(named) and (EVERY_REPLICA in named or f"{partition.index}:{self._broker_id}" in named)

    @property
    def is_exceeded(self) -> bool:
        """Whether more was sent or fetched than the rate of now allows."""
        return self._throttle.rest_s() > 0

    def take(self, size_bytes: int) -> None:
        """Note that so many bytes were sent or fetched."""
        self._throttle.take(size_bytes)
