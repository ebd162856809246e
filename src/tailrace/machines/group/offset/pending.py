"""Offsets that were committed in transactions that are still open.

A pending offset belongs to the producer of its transaction, and no client can fetch it. The marker that ends the
transaction makes it the offset of the group, or drops it. A tombstone drops the pending offsets of its partition, too,
those of all producers.
"""

from tailrace.machines.group.group import CommittedOffset

OffsetKey = tuple[str, str, int]
"""Group, topic and partition."""


class PendingOffsets:
    """Pending offsets by producer id. Only the replay of records and markers changes them."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        # The same in reverse: the producers with a pending offset, by group and partition. No level is ever empty.
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}

    def has_group(self, group_id: str) -> bool:
        """Return whether a transaction with offsets of this group is open."""
        return group_id in self._open

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether a transaction with an offset of this partition is open."""
        return (topic, partition) in self._open.get(group_id, {})

    def of_group(self, group_id: str) -> list[tuple[str, int]]:
        """Return the partitions for which the group has pending offsets."""
        return list(self._open.get(group_id, {}))

    def entries(self) -> list[tuple[OffsetKey, CommittedOffset]]:
        """Return all pending offsets, one producer after the other."""
        return [entry for offsets in self._by_producer.values() for entry in offsets.items()]

    def put(self, producer_id: int, key: OffsetKey, committed: CommittedOffset) -> None:
        """Add an offset that was committed in the transaction of this producer."""
        self._by_producer.setdefault(producer_id, {})[key] = committed
        group_id, topic, partition = key
        self._open.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer_id)

    def remove(self, key: OffsetKey) -> None:
        """Drop the pending offsets of this partition."""
        group_id, topic, partition = key
        for producer_id in self._open.get(group_id, {}).get((topic, partition), set()).copy():
            self._close(producer_id, key)
            offsets = self._by_producer[producer_id]
            del offsets[key]
            if not offsets:
                del self._by_producer[producer_id]

    def take(self, producer_id: int) -> dict[OffsetKey, CommittedOffset]:
        """Remove and return the pending offsets of a producer whose transaction has ended."""
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
