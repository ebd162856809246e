"""The offset at which two logs diverge, found by leader epochs (KIP-101, KIP-279, KIP-595).

For an epoch, a leader answers with its own largest epoch that is not above it, and with the end offset of that epoch. A
reader whose last epoch ends later has records that the leader's log does not have.
"""

from typing import NamedTuple, Protocol

from tailrace.base.sentinel import NO_EPOCH, NO_OFFSET


class EpochEnd(NamedTuple):
    """A leader epoch and the offset after its last record."""

    epoch: int
    end_offset: int


UNKNOWN = EpochEnd(NO_EPOCH, NO_OFFSET)


class EpochLog(Protocol):
    """A log that knows which epoch wrote each record."""

    @property
    def log_end_offset(self) -> int: ...

    @property
    def latest_epoch(self) -> int:
        """The epoch of the last record."""
        ...

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Return the largest epoch not above `leader_epoch` and its end offset; (-1, -1) if that is unknown."""
        ...


def end_of_epoch(log: EpochLog, leader_epoch: int, asked_epoch: int) -> EpochEnd:
    """Return the answer of the leader of `leader_epoch` for `asked_epoch`.

    The leader's own epoch begins at the log end offset of its election, even before it appends. So epochs between the
    last one with records and its own are known to have no records here.
    """
    latest = log.latest_epoch
    if NO_EPOCH != asked_epoch <= leader_epoch and asked_epoch > latest:
        # For an epoch older than all known ones Kafka answers with that epoch itself.
        is_known = latest != NO_EPOCH and asked_epoch != leader_epoch
        return EpochEnd(latest if is_known else asked_epoch, log.log_end_offset)
    return EpochEnd(*log.end_offset_for_epoch(asked_epoch))


def find_divergence(log: EpochLog, leader_epoch: int, fetch_offset: int, last_fetched_epoch: int) -> EpochEnd | None:
    """Return where the log of a reader at `fetch_offset` diverges from this log; None if it does not."""
    if last_fetched_epoch == NO_EPOCH:
        return None
    end = end_of_epoch(log, leader_epoch, last_fetched_epoch)
    return None if end.epoch == last_fetched_epoch and end.end_offset >= fetch_offset else end
