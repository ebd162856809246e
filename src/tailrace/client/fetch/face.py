"""What both consumers share: every call that waits for nothing."""

import time
from collections.abc import Callable, Iterable
from typing import Self

from tailrace.client.fetch.core import Assignable, ConsumerCore, RecordQueue, Subscription, Target
from tailrace.client.fetch.record import ConsumerRecord
from tailrace.client.group.offset import GroupMetadata
from tailrace.client.group.rebalance import RebalanceCallback, RebalanceListener
from tailrace.client.place import AT_COMMITTED, AT_EARLIEST, AT_LATEST, PlaceName, read_place
from tailrace.client.topic_partition import TopicPartition


class ConsumerFace:
    """What to read, and from where."""

    def __init__(self, core: ConsumerCore, records: RecordQueue) -> None:
        self._core = core
        self._group = core.group
        self._fetcher = core.fetcher
        self._records = records
        # Chosen once: reading record by record calls it for each.
        self._next_ready: Callable[[], ConsumerRecord | None] = (
            records.next if self._group is None else self._next_in_group
        )

    def subscribe(
        self,
        topics: Subscription,
        *,
        on_assigned: RebalanceCallback | None = None,
        on_revoked: RebalanceCallback | None = None,
        on_lost: RebalanceCallback | None = None,
    ) -> Self:
        """Read a topic, several topics, or those whose whole names match a compiled pattern.

        In a group the partitions are shared with the other members. The reading calls call the callbacks with a list
        of partitions that this member gets, gives up, or has lost to other members already (`on_revoked` is called
        for lost partitions if there is no `on_lost`). Callbacks of the asyncio consumer may be coroutine functions.

        Without a group every partition is read, and partitions that are added later from their beginning.
        An earlier subscription is forgotten.
        """
        self._core.subscribe(topics, RebalanceListener(on_assigned, on_revoked, on_lost))
        if self._group is None:
            self._records.clear()
        return self

    def assign(self, partitions: Iterable[Assignable]) -> Self:
        """Read these partitions: (topic, partition), or (topic, partition, start).

        A start is "earliest", "latest", an offset, a datetime, a time as text, or a time ago such as "-1h".
        """
        self._core.assign(partitions)
        self._records.clear()
        return self

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are read. Those of a subscription are known after the first read."""
        return self._core.assigned()

    def seek(self, topic: str, partition: int, start: PlaceName) -> None:
        """Continue a partition at an offset, or at any other start that `assign` accepts."""
        self._core.move([(topic, partition)], read_place(start))

    def seek_to_beginning(self, *partitions: Target) -> None:
        """Continue these partitions, or all, at their first record."""
        self._core.move(partitions, AT_EARLIEST)

    def seek_to_end(self, *partitions: Target) -> None:
        """Continue these partitions, or all, with the records that are written from now on."""
        self._core.move(partitions, AT_LATEST)

    def seek_to_committed(self, *partitions: Target) -> None:
        """Continue these partitions, or all, at the committed offsets of the group, for example after an abort."""
        self._core.joined_group()
        self._core.move(partitions, AT_COMMITTED)

    def pause(self, *partitions: Target) -> None:
        """Return no records of these partitions, or of any, until `resume`."""
        self._fetcher.pause(partitions or self._core.assigned(), is_paused=True)

    def resume(self, *partitions: Target) -> None:
        """Return records of these partitions, or of all, again."""
        self._fetcher.pause(partitions or self._core.assigned(), is_paused=False)

    def paused(self) -> list[TopicPartition]:
        """Return the partitions that are paused."""
        return self._core.assigned(only_paused=True)

    def lag(self) -> dict[TopicPartition, int | None]:
        """Return how many offsets each partition is behind its readable end, as of its last fetch; None before that.

        `max(consumer.lag().values())` is the current value of Kafka's `records-lag-max`.
        """
        return self._core.lags()

    def group_metadata(self) -> GroupMetadata:
        """Return this member of its group, for a producer that commits the group's offsets in its transaction."""
        return self._core.joined_group().metadata()

    def _next_in_group(self) -> ConsumerRecord | None:
        """Return the next record, or None if the caller must first wait for the group or for a fetch."""
        if self._fetcher.has_notice:
            return None
        self._core.joined_group().read_at_s = time.monotonic()
        return self._records.next()
