"""The decisions by which a follower makes its log agree with its leader's.

Theory of operation. Each fetch says where the follower's log ends and which epoch wrote its last record. If the
leader's log differs, the leader answers with its own largest epoch that is not above that one, and with the end offset
of that epoch. The follower truncates its log to the smaller of both ends of that epoch and fetches again. If it does
not know that epoch, it truncates to the end of the largest epoch below that it knows, and the next answer is about that
one. Each round goes back at least one epoch, so the rounds end (KIP-279). The follower never truncates to its own high
watermark, which may be lower than the offset that it has acknowledged (KIP-101).

A fetch acknowledges everything below its offset, so it is sent after those records are appended. Only a follower that
is far behind fetches ahead, while it still appends: below the leader's high watermark a fetch acknowledges no records
that a producer waits for. A follower in sync is never that far behind, and another one can join the ISR only at the
high watermark, which never goes back while the leader leads. So even if the append fails, such a fetch does no harm.
"""

from enum import Enum
from typing import NamedTuple

from tailrace.base.invariant import invariant
from tailrace.base.sentinel import NO_EPOCH, NO_OFFSET
from tailrace.machines.replica.epoch import EpochEnd, EpochLog
from tailrace.protocol.errors import ErrorCode


class Position(NamedTuple):
    """The position of a follower's next fetch."""

    fetch_offset: int
    last_fetched_epoch: int


def next_position(log: EpochLog) -> Position:
    """Return the end of the log; the epoch of the last record lets the leader notice that the logs differ."""
    return Position(log.log_end_offset, log.latest_epoch)


def may_ask_ahead(log: EpochLog, received: Position, high_watermark: int) -> bool:
    """Whether the next fetch may start after the received records before these are appended."""
    return log.log_end_offset < received.fetch_offset < high_watermark


def decide_truncation(log: EpochLog, leader: EpochEnd, high_watermark: int) -> int:
    """Return the offset to truncate the log to, after the leader answered where its own epoch ends."""
    end_offset = log.log_end_offset
    if leader.end_offset == NO_OFFSET:
        # The leader knows no epochs. Neither Tailrace nor a Kafka that replicates by epochs answers so.
        return min(high_watermark, end_offset)
    if leader.epoch == NO_EPOCH:
        return min(leader.end_offset, end_offset)
    # If this log does not know the epoch, this is the end of the largest epoch below. The logs diverge before both.
    _, own_end = log.end_offset_for_epoch(leader.epoch)
    offset = min(own_end if own_end != NO_OFFSET else end_offset, leader.end_offset, end_offset)
    invariant(0 <= offset <= end_offset, f"a log that ends at {end_offset} is truncated to {offset}")
    return offset


class Reset(NamedTuple):
    """The new start or end of a log that does not overlap the leader's."""

    offset: int
    is_full: bool


def decide_reset(log_end_offset: int, leader_start_offset: int, leader_end_offset: int) -> Reset | None:
    """Decide what to do after OFFSET_OUT_OF_RANGE: truncate, start again at the leader's start, or retry (None)."""
    if log_end_offset > leader_end_offset:
        return Reset(leader_end_offset, is_full=False)
    if log_end_offset < leader_start_offset:
        return Reset(leader_start_offset, is_full=True)
    return None


class Reaction(Enum):
    """A follower's reaction to an error from its leader."""

    RESET = "ask for the start and end of the leader's log"
    WAIT = "wait until the image names the new leader"
    RETRY = "retry after a short delay"


_REACTIONS = {
    ErrorCode.OFFSET_OUT_OF_RANGE: Reaction.RESET,
    # The leader has a newer epoch than this broker knows; the image will catch up.
    ErrorCode.FENCED_LEADER_EPOCH: Reaction.WAIT,
}


def react(code: ErrorCode) -> Reaction:
    """Return how to react to an error; a retry helps if the leader has not heard of its election yet."""
    return _REACTIONS.get(code, Reaction.RETRY)
