"""Offsets that were committed in transactions which are still open.

They belong to the producer whose transaction it is, and nobody reads them. The marker that ends the transaction makes
them the group's offsets or drops them. A tombstone drops what is pending for its partition, too, whoever committed it.
"""

from runnel.machines.group.group import CommittedOffset

OffsetKey = tuple[str, str, int]
"""Group, topic and partition."""


class PendingOffsets:
    """Pending offsets by producer id, changed by replaying records and markers and by nothing else."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        # The same the other way round: which producers have an offset pending. No level is ever empty.
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}

    def has_group(self, group_id: str) -> bool:
        """Whether a transaction with offsets of this group is open."""
        return group_id in self._open

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction with an offset for this partition is open."""
        return (topic, partition) in self._open.get(group_id, {})

    def of_group(self, group_id: str) -> list[tuple[str, int]]:
        """The partitions for which the group has offsets pending."""
        return list(self._open.get(group_id, {}))

    def entries(self) -> list[tuple[OffsetKey, CommittedOffset]]:
        """Everything that is pending, one producer after the other."""
        return [entry for offsets in self._by_producer.values() for entry in offsets.items()]

    def put(self, producer_id: int, key: OffsetKey, committed: CommittedOffset) -> None:
        """An offset was committed in the transaction of this producer."""
        self._by_producer.setdefault(producer_id, {})[key] = committed
        group_id, topic, partition = key
        self._open.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer_id)

    def remove(self, key: OffsetKey) -> None:
        """Whatever is pending for this partition is void."""
        group_id, topic, partition = key
        for producer_id in self._open.get(group_id, {}).get((topic, partition), set()).copy():
            self._close(producer_id, key)
            offsets = self._by_producer[producer_id]
            del offsets[key]
            if not offsets:
                del self._by_producer[producer_id]

    def take(self, producer_id: int) -> dict[OffsetKey, CommittedOffset]:
        """What the transaction of this producer has left, which is over now."""
        offsets = self._by_producer.pop(producer_id, {})
        for key in offsets:
            self._close(producer_id, key)
        return offsets

    def _close(self, producer_id: int, key: OffsetKey) -> None:
        group_id, topic, partition = key
        partitions = self._open[group_id]
        producers = partitions[topic, partition]
        producers.remove(producer_id)
        if not producers:
            del partitions[topic, partition]
        if not partitions:
            del self._open[group_id]
