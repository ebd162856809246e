"""The search for start offsets: leaders know times and words, the group's coordinator knows commits."""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from tailrace.base.sentinel import NO_EPOCH
from tailrace.client.cluster import Cluster
from tailrace.client.error import ClientError, OffsetMissing
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.fetch.truncation import EpochEnd, find_epoch_ends
from tailrace.client.group.offset import OffsetAndMetadata
from tailrace.client.offset import find_offsets
from tailrace.client.place import AT_COMMITTED, Place
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, RemoteProtocolError

FindCommitted: TypeAlias = Callable[[Iterable[TopicPartition]], Awaitable[Mapping[TopicPartition, OffsetAndMetadata]]]


class Located(NamedTuple):
    """An offset, and the leader epoch of the record before it if it is known."""

    offset: int
    leader_epoch: int = NO_EPOCH


Outcome: TypeAlias = Located | Exception

_log = logging.getLogger(__name__)

_WHAT_TO_DO = "; seek to an offset or set auto_offset_reset"
_ERRORS = (ClientError, ApiError, RemoteProtocolError)


class Locator:
    """Finds the offsets of several partitions at a time; each has its own outcome."""

    def __init__(self, cluster: Cluster, isolation: Isolation, reset: Place | None) -> None:
        """`reset` is the start of a partition without a commit; None makes that an error."""
        self.find_committed: FindCommitted | None = None
        self._cluster = cluster
        self._isolation = isolation
        self._reset = reset

    async def locate(
        self, places: Mapping[TopicPartition, Place], refused: Mapping[TopicPartition, Located]
    ) -> dict[TopicPartition, Outcome]:
        """Return the offset of each place, or the error; a refused position is kept if the leader has it after all."""
        outcomes: dict[TopicPartition, Outcome] = {}
        times: dict[str, dict[int, int]] = defaultdict(dict)
        committed = [target for target, place in places.items() if place == AT_COMMITTED]
        if committed:
            outcomes |= await self._ask_group(committed)
        for target, place in places.items():
            if place == AT_COMMITTED:
                if target not in outcomes and self._reset is not None:
                    times[target.topic][target.partition] = self._reset.time_ms
            else:
                times[target.topic][target.partition] = place.time_ms
        for topic, timestamps in times.items():
            outcomes |= await self._ask_leaders(topic, timestamps)
        return outcomes | await self._stay(refused, outcomes)

    async def _ask_group(self, targets: list[TopicPartition]) -> dict[TopicPartition, Outcome]:
        """Return committed offsets; a partition without one is left out if `reset` gives it a start."""
        if self.find_committed is None:
            return {}
        try:
            found = await self.find_committed(targets)
        except _ERRORS as error:
            return dict.fromkeys(targets, error)
        outcomes: dict[TopicPartition, Outcome] = {}
        epochs = {target: one.leader_epoch for target, one in found.items() if one.leader_epoch > NO_EPOCH}
        ends = await find_epoch_ends(self._cluster, epochs) if epochs else {}
        for target in targets:
            if target in found:
                outcome = self._check(target, Located(found[target].offset, found[target].leader_epoch), ends)
            else:
                outcome = self._without(OffsetMissing(f"{target} has no committed offset{_WHAT_TO_DO}"))
            if outcome is not None:
                outcomes[target] = outcome
        return outcomes

    def _check(self, target: TopicPartition, at: Located, ends: Mapping[TopicPartition, EpochEnd]) -> Outcome | None:
        """Return a commit, or the offset at which the log was truncated since."""
        end = ends.get(target)
        if end is None or _has(end, at):
            return at
        text = f"{target} was truncated: it no longer has offset {at.offset} of leader epoch {at.leader_epoch}"
        _log.warning("%s", text)
        if end.leader_epoch <= NO_EPOCH or self._reset is None:
            return self._without(OffsetMissing(text + _WHAT_TO_DO))
        return Located(end.end_offset, end.leader_epoch)

    def _without(self, error: OffsetMissing) -> OffsetMissing | None:
        """Return None if `reset` gives a start, else the error."""
        return error if self._reset is None else None

    async def _stay(
        self, refused: Mapping[TopicPartition, Located], starts: Mapping[TopicPartition, Outcome]
    ) -> dict[TopicPartition, Outcome]:
        """Return the refused positions that the leader has after all, with the records that were read before them.

        Each replica applies retention for itself. So the log of the next leader can begin before a position that was
        too old for the last one, and what the consumer has read already would be read again.
        """
        epochs = {}
        for target, at in refused.items():
            start = starts.get(target)
            if isinstance(start, Located) and start.offset < at.offset and at.leader_epoch > NO_EPOCH:
                epochs[target] = at.leader_epoch
        ends = await find_epoch_ends(self._cluster, epochs) if epochs else {}
        return {target: refused[target] for target, end in ends.items() if _has(end, refused[target])}

    async def _ask_leaders(self, topic: str, timestamps: Mapping[int, int]) -> dict[TopicPartition, Outcome]:
        targets = {TopicPartition(topic, partition): partition for partition in timestamps}
        try:
            found = await find_offsets(self._cluster, topic, timestamps, self._isolation)
        except _ERRORS as error:
            return dict.fromkeys(targets, error)
        return {target: Located(found[partition]) for target, partition in targets.items() if partition in found}


def _has(end: EpochEnd, at: Located) -> bool:
    """Return whether a log has the record before an offset, as the leader of that epoch wrote it."""
    return end.end_offset >= at.offset and end.leader_epoch > NO_EPOCH
