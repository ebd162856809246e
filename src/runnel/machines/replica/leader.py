"""What a leader knows of its followers in one leader epoch, and what follows from it.

Theory of operation. A follower that fetches at an offset has everything below it, so its fetches
are its acknowledgements. Only fetches of this leader epoch count: what a follower had under
another leader may be cut away yet. The high watermark is the smallest log end among the
members of the ISR, and everything below it is committed.

The ISR is a node in the metadata store, and changing it takes time during which nobody knows
which of two is true. Until the image tells, both are assumed: the maximal ISR is the committed one
and the one on its way together, and the high watermark waits for all of them (KIP-497). A
follower joins only if it has everything that is committed, which a new leader knows for sure only
of what was there when its epoch began, and only in the life that the cluster knows it to be in.

While fewer are in sync than `min.insync.replicas` the high watermark stands still (KIP-966): whoever left
the ISR last still has all that is committed, and may lead. Those are the eligible leader replicas (ELR). While the
store names any of them it stands still, too, whatever the configuration says by now: they could be elected.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from runnel.base.invariant import invariant

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
LONG_AGO_MS = -(2**62)

IsEligible = Callable[[int, int], bool]
"""Whether a broker may be in an ISR in that epoch of its: it lives, is admitted, is not about to stop."""


class Beat(Protocol):
    """The fetch session that a partition is in. While nothing changes its fetches do not name the partition."""

    @property
    def fetched_ms(self) -> int:
        """When the follower fetched last."""
        ...


@dataclass(slots=True)
class Progress:
    """What one follower's fetches have told."""

    end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = NO_BROKER_EPOCH
    # When it last had all that the leader had.
    caught_up_ms: int = LONG_AGO_MS
    fetched_ms: int = LONG_AGO_MS
    # The leader's log end at the fetch before.
    seen_end_offset: int = 0
    beat: Beat | None = None


class LeaderReplica:
    """The followers of one partition, from an election to the next."""

    def __init__(
        self,
        broker_id: int,
        leader_epoch: int,
        *,
        replicas: Sequence[int],
        isr: Sequence[int],
        elr: Sequence[int] = (),
        epoch_start_offset: int,
        min_isr: int,
        lag_max_ms: int,
        now_ms: int,
    ) -> None:
        """`epoch_start_offset` is where the log ended when this broker became leader."""
        self.broker_id = broker_id
        self.leader_epoch = leader_epoch
        self.epoch_start_offset = epoch_start_offset
        self.lag_max_ms = lag_max_ms
        self.isr = tuple(isr)
        self.elr = tuple(elr)
        self.pending: tuple[int, ...] | None = None
        self.followers: dict[int, Progress] = {}
        self._min_isr = min_isr
        self._maximal = frozenset(self.isr)
        self.on_assignment(replicas)
        for follower_id in self.isr:
            if progress := self.followers.get(follower_id):
                # It has not fetched yet, and gets as long as any to do so.
                progress.caught_up_ms = now_ms

    # What is known

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Everybody who is in sync, or will be if the change that is under way succeeds."""
        return self._maximal

    @property
    def min_isr(self) -> int:
        """`min.insync.replicas`, or the number of replicas where there are not as many."""
        return min(self._min_isr, len(self.followers) + 1)

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.isr) < self.min_isr

    def is_complete(self, log_end_offset: int) -> bool:
        """Whether all followers are in sync and have everything, so that nothing is to be decided about the ISR."""
        if self.elr or len(self.isr) != len(self.followers) + 1:
            return False
        return all(
            progress.end_offset >= log_end_offset and follower_id in self.isr
            for follower_id, progress in self.followers.items()
        )

    # What happens

    def on_assignment(self, replicas: Sequence[int]) -> None:
        """Replicas came or went."""
        others = [replica for replica in replicas if replica != self.broker_id]
        self.followers = {follower_id: self.followers.get(follower_id) or Progress() for follower_id in others}

    def on_isr(self, isr: Sequence[int], elr: Sequence[int] = ()) -> None:
        """The image tells ISR and ELR; whatever was under way has happened, or never will."""
        self.isr = tuple(isr)
        self.elr = tuple(elr)
        self.pending = None
        self._maximal = frozenset(self.isr)

    def on_min_isr(self, min_isr: int) -> None:
        """The topic's configuration changed."""
        self._min_isr = min_isr

    def on_fetch(
        self,
        follower_id: int,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        log_end_offset: int,
        now_ms: int,
        beat: Beat | None = None,
    ) -> None:
        """A follower has fetched in this leader epoch, at an offset up to which its log agrees with this one."""
        progress = self.followers[follower_id]
        if fetch_offset >= log_end_offset:
            progress.caught_up_ms = max(progress.caught_up_ms, now_ms)
        elif fetch_offset >= progress.seen_end_offset:
            # It has what was there at its last fetch: it is behind only by what came since.
            progress.caught_up_ms = max(progress.caught_up_ms, progress.fetched_ms)
        progress.end_offset = fetch_offset
        progress.log_start_offset = log_start_offset
        progress.broker_epoch = broker_epoch
        progress.fetched_ms = now_ms
        progress.seen_end_offset = log_end_offset
        progress.beat = beat

    def on_append(self, end_offset_before: int) -> None:
        """The log has grown. Followers that had all of it were in sync whenever their sessions fetched."""
        for progress in self.followers.values():
            if progress.beat is not None and progress.end_offset >= end_offset_before:
                progress.caught_up_ms = max(progress.caught_up_ms, progress.beat.fetched_ms)

    # What follows

    def committed_offset(self, log_end_offset: int, is_eligible: IsEligible, now_ms: int) -> int:
        """Up to where everybody has the log who must; the high watermark, unless that is higher already.

        A follower that is as good as in sync is waited for, too. Else one that comes back could chase the high
        watermark of a busy partition for ever.
        """
        if self.elr or self.is_under_min_isr:
            return UNKNOWN_OFFSET
        offset = log_end_offset
        for follower_id, progress in self.followers.items():
            if progress.end_offset < offset and (
                follower_id in self._maximal
                or (
                    self._is_caught_up(progress, log_end_offset, now_ms)
                    and is_eligible(follower_id, progress.broker_epoch)
                )
            ):
                offset = progress.end_offset
        return offset

    def decide_join(self, follower_id: int, high_watermark: int, is_eligible: IsEligible) -> tuple[int, ...] | None:
        """The ISR with this follower in it, if it may join now."""
        progress = self.followers.get(follower_id)
        if self.pending is not None or progress is None or follower_id in self.isr:
            return None
        has_all = progress.end_offset >= max(high_watermark, self.epoch_start_offset)
        if not has_all or not is_eligible(follower_id, progress.broker_epoch):
            return None
        return (*self.isr, follower_id)

    def decide_shrink(self, log_end_offset: int, now_ms: int) -> tuple[int, ...] | None:
        """The ISR to ask for: without those who have been behind for too long, or as it is to be rid of an ELR."""
        if self.pending is not None:
            return None
        kept = tuple(
            member
            for member in self.isr
            if member == self.broker_id
            or ((progress := self.followers.get(member)) and self._is_caught_up(progress, log_end_offset, now_ms))
        )
        is_elr_over = bool(self.elr) and len(kept) >= self.min_isr
        return kept if kept != self.isr or is_elr_over else None

    def begin(self, isr: tuple[int, ...]) -> None:
        """An ISR is on its way to the metadata store."""
        invariant(self.pending is None, "one change of an ISR at a time")
        invariant(self.broker_id in isr, "a leader is in sync with itself")
        self.pending = isr
        self._maximal = frozenset((*self.isr, *isr))

    def give_up(self) -> None:
        """What was on its way has surely not happened."""
        self.on_isr(self.isr, self.elr)

    def low_watermark(self, log_start_offset: int, is_live: Callable[[int], bool]) -> int:
        """From where on all live replicas have the log; what DeleteRecords waits for."""
        starts = [progress.log_start_offset for other, progress in self.followers.items() if is_live(other)]
        return min([log_start_offset, *starts])

    def _is_caught_up(self, progress: Progress, log_end_offset: int, now_ms: int) -> bool:
        return progress.end_offset >= log_end_offset or now_ms - progress.caught_up_ms <= self.lag_max_ms
