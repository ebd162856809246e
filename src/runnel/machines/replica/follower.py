"""What a follower does with its log to agree with its leader's.

Theory of operation. Each fetch says where the follower's log ends and which epoch wrote its last record. A
leader whose log is not like that says so: the largest epoch of its own that is not above that one, and where it
ends. The follower cuts its log at the smaller of both ends of that epoch and asks again. If it does not know that
epoch, it cuts what is above the largest that it knows below, and the next answer will be about that one; each
round goes at least one epoch back, so it ends (KIP-279). It never cuts at its own high watermark, which may be
older than what it has acknowledged (KIP-101).

A fetch acknowledges everything below its offset, so it is sent after that is appended. Only a follower that is far
behind asks ahead, while it still appends: up to the high watermark that the leader has told, it acknowledges nothing
that anybody waits for. Who is in sync is never that far behind, and who is not may join only at the high watermark,
which does not go back while the leader leads. So whatever becomes of the append, nothing follows from a fetch below.
"""

from enum import Enum
from typing import NamedTuple

from runnel.machines.replica.epoch import NO_EPOCH, NO_OFFSET, EpochEnd, EpochLog
from runnel.protocol.errors import ErrorCode


class Position(NamedTuple):
    """Where a follower's next fetch begins."""

    fetch_offset: int
    last_fetched_epoch: int


def next_position(log: EpochLog) -> Position:
    """Fetch from the end on; the epoch of the last record lets the leader notice a log that is not its own."""
    return Position(log.log_end_offset, log.latest_epoch)


def may_ask_ahead(log: EpochLog, received: Position, high_watermark: int) -> bool:
    """Whether the next fetch may begin behind what was received, before that is appended."""
    return log.log_end_offset < received.fetch_offset < high_watermark


def decide_truncation(log: EpochLog, leader: EpochEnd, high_watermark: int) -> int:
    """The offset to cut the log at after the leader has answered where its own epoch ends."""
    end_offset = log.log_end_offset
    if leader.end_offset == NO_OFFSET:
        # The leader knows nothing of our epochs, which is no answer of a Runnel or Kafka that replicates by epochs.
        return min(high_watermark, end_offset)
    if leader.epoch == NO_EPOCH:
        return min(leader.end_offset, end_offset)
    # Where this log does not know the epoch it is the end of the largest below. The logs have parted before both.
    _, own_end = log.end_offset_for_epoch(leader.epoch)
    return min(own_end if own_end != NO_OFFSET else end_offset, leader.end_offset, end_offset)


class Reset(NamedTuple):
    """What to do with a log that does not overlap the leader's."""

    offset: int
    is_full: bool


def decide_reset(log_end_offset: int, leader_start_offset: int, leader_end_offset: int) -> Reset | None:
    """After OFFSET_OUT_OF_RANGE: end where the leader ends, begin again where it begins, or just try again."""
    if log_end_offset > leader_end_offset:
        return Reset(leader_end_offset, is_full=False)
    if log_end_offset < leader_start_offset:
        return Reset(leader_start_offset, is_full=True)
    return None


class Reaction(Enum):
    """What a follower does about an error of its leader."""

    RESET = "ask where the leader's log begins and ends"
    WAIT = "wait for the image to say who leads now"
    RETRY = "try again a little later"


_REACTIONS = {
    ErrorCode.OFFSET_OUT_OF_RANGE: Reaction.RESET,
    # The leader is newer than what this broker knows; its image will follow.
    ErrorCode.FENCED_LEADER_EPOCH: Reaction.WAIT,
}


def react(code: ErrorCode) -> Reaction:
    """How to go on after an error. Of a leader that does not know its epoch yet, the next try may find that it does."""
    return _REACTIONS.get(code, Reaction.RETRY)
