"""The choice of the replica that a consumer reads from (KIP-392)."""

from collections.abc import Iterable
from typing import NamedTuple

from tailrace.machines.replica.leader import Progress


class Candidate(NamedTuple):
    """A live follower and its rack."""

    broker_id: int
    rack: str | None
    progress: Progress


def select_nearest(
    rack: str, leader_rack: str | None, candidates: Iterable[Candidate], fetch_offset: int
) -> int | None:
    """Return the most advanced follower in the consumer's rack that has `fetch_offset`; None for the leader."""
    if rack == leader_rack:
        return None
    near = [
        candidate
        for candidate in candidates
        if candidate.rack == rack
        and candidate.progress.log_start_offset <= fetch_offset <= candidate.progress.end_offset
    ]
    return max(near, key=lambda candidate: candidate.progress.end_offset).broker_id if near else None
