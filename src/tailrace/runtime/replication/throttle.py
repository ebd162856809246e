"""Replication throttles, which keep reassignments from slowing down other traffic (KIP-73).

Only replicas that the topic's config names are throttled, and only while they are not in sync: producers wait for
followers that are.
"""

from collections.abc import Callable, Sequence

from tailrace.base.clock import Clock
from tailrace.config.topic import TopicConfig
from tailrace.runtime.partition import Partition
from tailrace.storage.throttle import Throttle

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
        """`replicas_of` returns the topic config that names the throttled replicas, as PARTITION:BROKER or `*`."""
        self._broker_id = broker_id
        self._replicas_of = replicas_of
        self._throttle = Throttle(clock, lambda: max(bytes_per_second(), 1))

    def applies_to(self, partition: Partition) -> bool:
        """Whether this broker's replica of a partition is throttled."""
        named = self._replicas_of(partition.config)
        return bool(named) and (EVERY_REPLICA in named or f"{partition.index}:{self._broker_id}" in named)

    @property
    def is_exceeded(self) -> bool:
        """Whether more was sent or fetched than the current rate allows."""
        return self._throttle.rest_s() > 0

    def take(self, size_bytes: int) -> None:
        """Count bytes that were sent or fetched."""
        self._throttle.take(size_bytes)
