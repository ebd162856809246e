"""Where two logs part, told by leader epochs (KIP-101, KIP-279, KIP-595).

A leader answers for an epoch with the largest epoch of its own that is not above it, and where that ends. A
reader whose last epoch ends later has something that this log has not.
"""

from typing import NamedTuple, Protocol

NO_EPOCH = -1
NO_OFFSET = -1


class EpochEnd(NamedTuple):
    """A leader epoch and the offset behind its last record."""

    epoch: int
    end_offset: int


UNKNOWN = EpochEnd(NO_EPOCH, NO_OFFSET)


class EpochLog(Protocol):
    """A log that knows which epoch wrote what."""

    @property
    def log_end_offset(self) -> int: ...

    @property
    def latest_epoch(self) -> int:
        """The epoch of its last record."""
        ...

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch not above `leader_epoch` and where it ends; (-1, -1) if that is unknown."""
        ...


def end_of_epoch(log: EpochLog, leader_epoch: int, asked_epoch: int) -> EpochEnd:
    """What the leader of `leader_epoch` answers for `asked_epoch`.

    Its own epoch begins where the log ended at its election, also before it has written anything. So epochs
    between the last that wrote and its own are known to have written nothing here.
    """
    latest = log.latest_epoch
    if NO_EPOCH != asked_epoch <= leader_epoch and asked_epoch > latest:
        # Kafka's answer for an epoch older than all that are known is that epoch itself.
        is_known = latest != NO_EPOCH and asked_epoch != leader_epoch
        return EpochEnd(latest if is_known else asked_epoch, log.log_end_offset)
    return EpochEnd(*log.end_offset_for_epoch(asked_epoch))


def find_divergence(log: EpochLog, leader_epoch: int, fetch_offset: int, last_fetched_epoch: int) -> EpochEnd | None:
    """Where a reader who wants to go on at `fetch_offset` left this log, if it did."""
    if last_fetched_epoch == NO_EPOCH:
        return None
    end = end_of_epoch(log, leader_epoch, last_fetched_epoch)
    return None if end.epoch == last_fetched_epoch and end.end_offset >= fetch_offset else end
