"""Commits of one consumer, one after the other: an older one that is tried again never overtakes a newer one."""

import asyncio
from collections.abc import Callable, Mapping

from runnel.client.backoff import Deadline
from runnel.client.error import BrokerUnavailable, CommitFailed, RequestTimeout
from runnel.client.group_coordinator import MOVED, Coordinator
from runnel.client.group_offset import Identity, OffsetAndMetadata, commit_offsets
from runnel.client.topic_partition import TopicPartition
from runnel.protocol.errors import ApiError, ErrorCode

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
    """Commits for whoever `identity` says we are at the moment."""

    def __init__(
        self,
        coordinator: Coordinator,
        identity: Callable[[], Identity],
        is_owned: Callable[[TopicPartition], bool],
        timeout_ms: int,
    ) -> None:
        """`is_owned` tells whether a partition may still be committed when a first attempt has failed."""
        self.on_fenced: Callable[[Identity], bool] = lambda _: True
        self._coordinator = coordinator
        self._identity = identity
        self._is_owned = is_owned
        self._timeout_ms = timeout_ms
        self._turn = asyncio.Lock()
        self._committed: dict[TopicPartition, int] = {}

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Store offsets; raises `CommitFailed` when the group has gone on, or `ApiError`."""
        async with self._turn:
            deadline = Deadline(self._timeout_ms)
            failure_count = 0
            while offsets:
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
                    raise CommitFailed(f"{', '.join(map(str, lost))} went to another member before it was committed")

    def changed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Those of some offsets that are not committed already."""
        return {target: wanted for target, wanted in offsets.items() if self._committed.get(target) != wanted.offset}

    def note(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """This is what is committed."""
        self._committed.update({target: found.offset for target, found in offsets.items()})

    def forget(self, targets: Mapping[TopicPartition, object]) -> None:
        """Others may commit these partitions from now on."""
        for target in targets:
            self._committed.pop(target, None)

    async def _attempt(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Exception | None:
        """Ask once; the error that may pass, if there is one."""
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
                    return refused  # the next generation is about to be known
                text = f"the group {self._coordinator.group_id} has gone on without this consumer ({code.name})"
                raise CommitFailed(f"{text}; what it read since the last commit is read again by others")
            if code in MOVED:
                self._coordinator.forget()
            if code not in _IN_BETWEEN and (not code.retriable or code in _GONE):
                raise refused
            return refused
        return None
