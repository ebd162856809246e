"""The rule by which a leader acknowledges records, and the wait until it may.

A leader may acknowledge what it has appended when all of this holds:

1. The records are flushed, where `flush.messages` wants them on the disk.
2. The high watermark has passed them: every replica in sync has them. With `acks=1` this is not asked for.
3. The partition is still in the leader epoch in which they were appended. A later leader may have truncated them and
   stored other records at their offsets.
4. The broker is still certain to be the leader (`runtime.lease`). A leader that was paused must not answer from what it
   knew before, because another leader may have gone on.

Produce, the markers of transactions, and everything that a coordinator answers or does follow this one rule. The last
two points are judged after the waits, when the answer is about to be given.
"""

import asyncio
from collections.abc import Callable, Sequence

from tailrace.base.sentinel import ACKS_ALL
from tailrace.protocol.errors import ErrorCode
from tailrace.runtime.log.shared_flush import FlushEnd
from tailrace.runtime.offset_wait import OffsetReached
from tailrace.runtime.partition import Partition


class PendingAcknowledgement:
    """An acknowledgement that waits for a flush or for other replicas."""

    __slots__ = ("_leader_epoch", "_partition", "flush", "reached")

    def __init__(self, partition: Partition, flush: FlushEnd | None, reached: OffsetReached | None) -> None:
        """`reached` is the wait for the high watermark, None if it is not waited for."""
        self._partition = partition
        self._leader_epoch = partition.leader_epoch
        self.flush = flush
        self.reached = reached

    @property
    def code(self) -> ErrorCode:
        """NONE if the records may be acknowledged now, else the reason why not.

        REQUEST_TIMED_OUT if the high watermark has not passed them: they may still get that far.
        """
        if _has_failed(self.flush):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.reached is not None:
            if not self.reached.done() or self.reached.cancelled():
                return ErrorCode.REQUEST_TIMED_OUT
            if (code := self.reached.result()) is not None:
                return code
        if self._partition.leader_epoch != self._leader_epoch or not self._partition.is_sure_to_lead:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def when_known(self, tell: Callable[[ErrorCode], None], timeout_ms: int) -> None:
        """Call `tell` with the code once it is known, which takes at most `timeout_ms` after the flush."""
        if self.flush is None:
            self._when_reached(tell, timeout_ms)
        else:
            self.flush.add_done_callback(lambda _: self._when_reached(tell, timeout_ms))

    def _when_reached(self, tell: Callable[[ErrorCode], None], timeout_ms: int) -> None:
        reached = self.reached
        if reached is None or _has_failed(self.flush):
            tell(self.code)
            return
        timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, _time_out, reached)

        def done(_: OffsetReached) -> None:
            timer.cancel()
            tell(self.code)

        reached.add_done_callback(done)


def acknowledge(partition: Partition, end_offset: int, *, acks: int = ACKS_ALL) -> ErrorCode | PendingAcknowledgement:
    """Judge whether everything below `end_offset` may be acknowledged; called in the step that has appended it.

    Returns NONE or the reason why not. If that is not known yet, returns what to wait for.
    """
    flush = partition.flush_end
    reached = partition.high_watermark_reached(end_offset) if acks == ACKS_ALL else None
    if flush is None and reached is None:
        return ErrorCode.NONE if partition.is_sure_to_lead else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return PendingAcknowledgement(partition, flush, reached)


def when_acknowledged(
    partition: Partition, end_offset: int, timeout_ms: int, tell: Callable[[ErrorCode], None]
) -> None:
    """Call `tell` with the code of an acknowledgement, at once if it is known."""
    found = acknowledge(partition, end_offset)
    if isinstance(found, PendingAcknowledgement):
        found.when_known(tell, timeout_ms)
    else:
        tell(found)


async def wait_for_acknowledgements(pending: Sequence[PendingAcknowledgement], timeout_ms: int) -> None:
    """Wait until the codes are known, or until `timeout_ms` have passed after the flushes."""
    if flushes := {each.flush for each in pending if each.flush is not None}:
        await asyncio.wait(flushes)
    waits = [each.reached for each in pending if each.reached is not None and not _has_failed(each.flush)]
    if waits:
        _, late = await asyncio.wait(waits, timeout=max(timeout_ms, 0) / 1000)
        for wait in late:
            wait.cancel()


def _has_failed(flush: FlushEnd | None) -> bool:
    return flush is not None and flush.done() and (flush.cancelled() or flush.result() is not None)


def _time_out(reached: OffsetReached) -> None:
    if not reached.done():
        reached.set_result(ErrorCode.REQUEST_TIMED_OUT)
