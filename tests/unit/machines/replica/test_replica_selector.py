"""KIP-392: a consumer reads from its own rack where a replica there has what it wants."""

import pytest

from tailrace.machines.replica.leader import Progress
from tailrace.machines.replica.selector import Candidate, select_nearest

CANDIDATES = [
    Candidate(2, "b", Progress(end_offset=10, log_start_offset=0)),
    Candidate(3, "b", Progress(end_offset=12, log_start_offset=5)),
    Candidate(4, None, Progress(end_offset=20, log_start_offset=0)),
    Candidate(5, "c", Progress()),
]


@pytest.mark.parametrize(
    ("rack", "offset", "expected"),
    [
        ("a", 7, None),  # the leader's own
        ("b", 7, 3),  # the one that is furthest
        ("b", 3, 2),  # the other has deleted it
        ("b", 12, 3),
        ("b", 13, None),  # nobody there has it yet
        ("c", 0, None),  # one of which nothing is known
        ("nowhere", 7, None),
    ],
)
def test_which_replica_is_nearest(rack: str, offset: int, expected: int | None) -> None:
    assert select_nearest(rack, "a", CANDIDATES, offset) == expected
