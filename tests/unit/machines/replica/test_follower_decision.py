"""What a follower does about its leader's answers."""

import pytest
from tests.unit.machines.replica.model import ModelLog

from tailrace.machines.replica.epoch import EpochEnd
from tailrace.machines.replica.follower import Reaction, Reset, decide_reset, decide_truncation, react
from tailrace.protocol.errors import ErrorCode

LOG = ModelLog([(0, "a"), (0, "b"), (2, "c"), (5, "d"), (5, "e")])


@pytest.mark.parametrize(
    ("answer", "offset"),
    [
        (EpochEnd(5, 4), 4),  # the leader's epoch ends earlier
        (EpochEnd(5, 9), 5),  # it ends later
        (EpochEnd(2, 3), 3),
        (EpochEnd(2, 2), 2),
        (EpochEnd(3, 9), 3),  # an epoch that is not in this log: back to the end of the largest below
        (EpochEnd(0, 1), 1),
        (EpochEnd(-1, 2), 2),
        (EpochEnd(-1, -1), 1),  # no answer at all: the high watermark is all that is left
    ],
)
def test_where_the_log_is_cut(answer: EpochEnd, offset: int) -> None:
    assert decide_truncation(LOG, answer, high_watermark=1) == offset


@pytest.mark.parametrize(
    ("end", "leader_start", "leader_end", "expected"),
    [
        (10, 0, 5, Reset(5, is_full=False)),
        (10, 20, 30, Reset(20, is_full=True)),
        (10, 5, 30, None),
        (10, 10, 10, None),
        (10, 0, 0, Reset(0, is_full=False)),
    ],
)
def test_a_log_that_does_not_overlap_the_leaders(
    end: int, leader_start: int, leader_end: int, expected: object
) -> None:
    assert decide_reset(end, leader_start, leader_end) == expected


def test_errors_of_the_leader() -> None:
    assert react(ErrorCode.OFFSET_OUT_OF_RANGE) is Reaction.RESET
    assert react(ErrorCode.FENCED_LEADER_EPOCH) is Reaction.WAIT
    assert react(ErrorCode.NOT_LEADER_OR_FOLLOWER) is Reaction.RETRY
