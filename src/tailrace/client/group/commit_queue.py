"""The commits of one consumer, sent one after the other, so that a retry never overwrites a newer commit.

A commit belongs to the membership and to the ownership of its partitions under which it was asked for. After that
another member may have committed more, so it is not sent any more: not without a member, which an empty group accepts
from consumers that assign their partitions themselves, and not for a partition that was given up and came back.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from tailrace.client.backoff import Deadline
from tailrace.client.error import BrokerUnavailable, CommitFailed, RequestTimeout
from tailrace.client.group.coordinator import MOVED, Coordinator
from tailrace.client.group.offset import Identity, OffsetAndMetadata, commit_offsets
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode

_FENCED = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""The topic was deleted, perhaps to be created again: there is nothing to commit to."""
_IN_BETWEEN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH})
"""The member will soon know its new generation or epoch, and may then say the same again."""


class Committer:
    """Sends commits under the current `identity` of the member."""

    def __init__(
        self,
        coordinator: Coordinator,
        identity: Callable[[], Identity],
        is_owned: Callable[[TopicPartition], bool],
        timeout_ms: int,
    ) -> None:
        """`is_owned` returns whether a partition may still be committed after a failed attempt."""
        self.on_fenced: Callable[[Identity], bool] = lambda _: True
        self._coordinator = coordinator
        self._identity = identity
        self._is_owned = is_owned
        self._timeout_ms = timeout_ms
        self._turn = asyncio.Lock()
        self._committed: dict[TopicPartition, int] = {}
        self._given_up_counts: Counter[TopicPartition] = Counter()

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets; raises `CommitFailed` if the group has excluded the member, or `ApiError`."""
        is_member = self._identity().is_member
        given_up_counts = {target: self._given_up_counts[target] for target in offsets}
        async with self._turn:
            deadline = Deadline(self._timeout_ms)
            failure_count = 0
            while offsets:
                self._check_kept(given_up_counts, is_member=is_member)
                error = await self._attempt(offsets)
                if error is None:
                    self.note(offsets)
                    return
                failure_count += 1
                wait_s = self._coordinator.cluster.backoff.wait_s(failure_count)
                if wait_s > deadline.left_s:
                    raise error
                await asyncio.sleep(wait_s)
                if lost := sorted(target for target in offsets if not self._is_owned(target)):
                    raise CommitFailed(f"{', '.join(map(str, lost))} was assigned to another member before the commit")

    def _check_kept(self, given_up_counts: Mapping[TopicPartition, int], *, is_member: bool) -> None:
        """Raise `CommitFailed` if the group has excluded the member since, or it has given up a partition."""
        if is_member and not self._identity().is_member:
            raise CommitFailed(f"the group {self._coordinator.group_id} has excluded this consumer before the commit")
        if lost := sorted(each for each, count in given_up_counts.items() if self._given_up_counts[each] != count):
            raise CommitFailed(f"{', '.join(map(str, lost))} was given up or lost before the commit")

    def changed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that are not committed already."""
        return {target: wanted for target, wanted in offsets.items() if self._committed.get(target) != wanted.offset}

    def note(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record committed offsets."""
        self._committed.update({target: found.offset for target, found in offsets.items()})

    def forget(self, targets: Mapping[TopicPartition, object]) -> None:
        """Forget the commits of partitions that other members may commit from now on."""
        for target in targets:
            self._committed.pop(target, None)

    def give_up(self, targets: Iterable[TopicPartition]) -> None:
        """Forget the commits of partitions, and send none any more that was asked for before."""
        for target in targets:
            self._committed.pop(target, None)
            self._given_up_counts[target] += 1

    async def _attempt(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Exception | None:
        """Send one commit; returns its error if that is retriable."""
        identity = self._identity()
        try:
            view = self._coordinator.cluster.view
            ids = {name: view.topics[name].topic_id for name, _ in offsets if name in view.topics}
            codes = await commit_offsets(self._coordinator, identity, offsets, ids)
        except (BrokerUnavailable, RequestTimeout) as error:
            return error
        except ApiError as error:
            if not error.code.retriable:
                raise
            return error
        for target, code in codes.items():
            if code is ErrorCode.NONE:
                continue
            refused = ApiError(code, f"committing offset {offsets[target].offset} of {target}")
            if code in _FENCED:
                if not self.on_fenced(identity):
                    return refused  # the member is about to learn its new generation
                text = f"the group {self._coordinator.group_id} has excluded this consumer ({code.name})"
                raise CommitFailed(f"{text}; other members read its records since the last commit again")
            if code in MOVED:
                self._coordinator.forget()
            if code not in _IN_BETWEEN and (not code.retriable or code in _GONE):
                raise refused
            return refused
        return None
