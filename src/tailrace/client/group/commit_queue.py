"""The commits of one consumer, sent one after the other, so that a retry never overwrites a newer commit.

A commit belongs to the membership, the partitions and the topics that the consumer has when it requests it. Later the
commit may not be sent any more, because another member may have committed more:

- after the group has excluded the member. The request would name no member, and an empty group accepts such a commit.
- for a partition that the consumer has given up, even if it owns the partition again.
- for a topic that was deleted and created again: the offset belongs to the deleted topic.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from tailrace.client.backoff import Deadline
from tailrace.client.error import BrokerUnavailable, CommitFailed, RequestTimeout
from tailrace.client.group.coordinator import MOVED, Coordinator
from tailrace.client.group.offset import Identity, OffsetAndMetadata, commit_offsets
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.primitive import ZERO_UUID

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


class Commit(NamedTuple):
    """Offsets to commit, and the state of the consumer when it requested the commit."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    is_member: bool
    given_up_counts: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, UUID]


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

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], read_ids: Mapping[str, UUID]) -> Commit:
        """Return a commit of offsets that belongs to the present state of the consumer.

        `read_ids` are the ids of the topics that it has read from; the metadata may know none while a topic is deleted.
        """
        topics = self._coordinator.cluster.view.topics
        known = {name: topics[name].topic_id for name, _ in offsets if name in topics}
        return Commit(
            offsets,
            is_member=self._identity().is_member,
            given_up_counts={target: self._given_up_counts[target] for target in offsets},
            topic_ids=known | {name: read_ids[name] for name, _ in offsets if name in read_ids},
        )

    async def commit(self, wanted: Commit, *, skips_lost: bool = False) -> None:
        """Commit offsets; raises `CommitFailed` if the group has excluded the member, or `ApiError`.

        With `skips_lost`, partitions that were given up meanwhile are left out.
        """
        offsets = wanted.offsets
        async with self._turn:
            deadline = Deadline(self._timeout_ms)
            failure_count = 0
            while offsets := self._find_kept(wanted, offsets, skips_lost=skips_lost):
                error = await self._attempt(offsets, wanted.topic_ids)
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

    def _find_kept(
        self, wanted: Commit, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, skips_lost: bool
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return the offsets whose partitions the consumer has had since it requested the commit.

        Raise `CommitFailed` if the group has excluded the member or, unless `skips_lost`, a partition was given up.
        """
        if wanted.is_member and not self._identity().is_member:
            raise CommitFailed(f"the group {self._coordinator.group_id} has excluded this consumer before the commit")
        kept = {
            target: found
            for target, found in offsets.items()
            if self._given_up_counts[target] == wanted.given_up_counts[target]
        }
        if len(kept) < len(offsets) and not skips_lost:
            lost = ", ".join(str(target) for target in sorted(offsets) if target not in kept)
            raise CommitFailed(f"{lost} was given up or lost before the commit")
        return kept

    def _check_topics(self, ids: Mapping[str, UUID]) -> None:
        """Raise `ApiError` if a topic was deleted and created again. A broker that knows no topic ids would not."""
        topics = self._coordinator.cluster.view.topics
        for name, topic_id in ids.items():
            now_id = topics[name].topic_id if name in topics else topic_id
            if now_id != topic_id and ZERO_UUID not in (now_id, topic_id):
                text = f"{name} was deleted and created again before its offsets were committed"
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, text)

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

    async def _attempt(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], ids: Mapping[str, UUID]
    ) -> Exception | None:
        """Send one commit; returns its error if that is retriable."""
        identity = self._identity()
        self._check_topics(ids)
        try:
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
