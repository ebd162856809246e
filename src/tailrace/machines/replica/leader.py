"""The leader's view of its followers in one leader epoch: high watermark and ISR.

Theory of operation. A follower that fetches at an offset has all records below it, so its fetches are its
acknowledgements. Only fetches in this leader epoch count: records that a follower got from another leader may still be
truncated. The high watermark is the smallest log end offset among the replicas in the ISR, and all records below it are
committed.

The ISR is stored in the metadata store. While a change is being written, the leader cannot know whether it has taken
effect. Until the image tells, both are assumed: the maximal ISR is the union of the stored and the proposed one, and
the high watermark waits for all of its members (KIP-497). A follower joins the ISR only if it has all committed
records and the records that the log had when this epoch began, and only in the broker epoch that the cluster knows.

While the ISR is smaller than `min.insync.replicas` the high watermark does not advance (KIP-966): replicas that left
the ISR last still have all committed records and may lead. They are the eligible leader replicas (ELR). While the store
names any, the high watermark does not advance either, whatever the config is by now: they could be elected.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tailrace.base.invariant import invariant
from tailrace.base.sentinel import NO_BROKER_EPOCH, NO_OFFSET

LONG_AGO_MS = -(2**62)

IsEligible = Callable[[int, int], bool]
"""Whether a broker may be in an ISR in this broker epoch: it is alive, admitted and not stopping."""


class Beat(Protocol):
    """The fetch session of a partition. While nothing changes, its fetches do not name the partition."""

    @property
    def fetched_ms(self) -> int:
        """The time of the follower's last fetch."""
        ...


@dataclass(slots=True)
class Progress:
    """What the leader knows from one follower's fetches."""

    end_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    broker_epoch: int = NO_BROKER_EPOCH
    # When the follower last had all of the leader's records.
    caught_up_ms: int = LONG_AGO_MS
    fetched_ms: int = LONG_AGO_MS
    # The leader's log end offset at the previous fetch.
    seen_end_offset: int = 0
    beat: Beat | None = None


class LeaderReplica:
    """The followers of one partition, from one election to the next."""

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
        """`epoch_start_offset` is the log end offset when this broker became leader."""
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
                # It has not fetched yet, and gets the whole lag time to do so.
                progress.caught_up_ms = now_ms

    # --- what is known

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The replicas that are in the ISR, or will be if the pending change succeeds."""
        return self._maximal

    @property
    def min_isr(self) -> int:
        """`min.insync.replicas`, or the number of replicas if that is smaller."""
        return min(self._min_isr, len(self.followers) + 1)

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.isr) < self.min_isr

    def is_complete(self, log_end_offset: int) -> bool:
        """Whether all followers are in the ISR and have all records, so that the ISR need not change."""
        if self.elr or len(self.isr) != len(self.followers) + 1:
            return False
        return all(
            progress.end_offset >= log_end_offset and follower_id in self.isr
            for follower_id, progress in self.followers.items()
        )

    # --- what happens

    def on_assignment(self, replicas: Sequence[int]) -> None:
        """Note that replicas were added or removed."""
        others = [replica for replica in replicas if replica != self.broker_id]
        self.followers = {follower_id: self.followers.get(follower_id) or Progress() for follower_id in others}

    def on_isr(self, isr: Sequence[int], elr: Sequence[int] = ()) -> None:
        """Set the ISR and ELR that the image has; a pending change has taken effect, or never will."""
        self.isr = tuple(isr)
        self.elr = tuple(elr)
        self.pending = None
        self._maximal = frozenset(self.isr)

    def on_min_isr(self, min_isr: int) -> None:
        """Set `min.insync.replicas` after a change of the topic's config."""
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
        """Note the fetch of a follower whose log agrees with this one below `fetch_offset`, in this leader epoch."""
        invariant(follower_id in self.followers, "a broker fetches as a follower and is not a replica")
        invariant(fetch_offset <= log_end_offset, "a follower acknowledges records that its leader does not have")
        progress = self.followers[follower_id]
        if fetch_offset >= log_end_offset:
            progress.caught_up_ms = max(progress.caught_up_ms, now_ms)
        elif fetch_offset >= progress.seen_end_offset:
            # It has all records of its previous fetch: it lacks only those that were appended since.
            progress.caught_up_ms = max(progress.caught_up_ms, progress.fetched_ms)
        progress.end_offset = fetch_offset
        progress.log_start_offset = log_start_offset
        progress.broker_epoch = broker_epoch
        progress.fetched_ms = now_ms
        progress.seen_end_offset = log_end_offset
        progress.beat = beat

    def on_append(self, end_offset_before: int) -> None:
        """Note an append. Followers that had all records before were caught up at the last fetch of their sessions."""
        for progress in self.followers.values():
            if progress.beat is not None and progress.end_offset >= end_offset_before:
                progress.caught_up_ms = max(progress.caught_up_ms, progress.beat.fetched_ms)

    # --- what follows

    def committed_offset(self, log_end_offset: int, is_eligible: IsEligible, now_ms: int) -> int:
        """Return the offset below which all required replicas have the log: the high watermark, unless that is higher.

        Followers that have caught up but are not in the ISR yet are required, too. Without that, a follower that comes
        back might never reach the high watermark of a busy partition.
        """
        if self.elr or self.is_under_min_isr:
            return NO_OFFSET
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

    def decide_join(
        self, follower_id: int, high_watermark: int, is_eligible: IsEligible, log_start_offset: int = NO_OFFSET
    ) -> tuple[int, ...] | None:
        """Return the ISR with this follower, if the follower may join now; else None.

        A follower that still has records below `log_start_offset`, the leader's, may not join. If it were elected,
        deleted records would return. Kafka lets it join.
        """
        progress = self.followers.get(follower_id)
        if self.pending is not None or progress is None or follower_id in self.isr:
            return None
        has_all = progress.end_offset >= max(high_watermark, self.epoch_start_offset)
        has_deleted = progress.log_start_offset >= log_start_offset
        if not has_all or not has_deleted or not is_eligible(follower_id, progress.broker_epoch):
            return None
        return (*self.isr, follower_id)

    def is_fetching(self, follower_id: int, now_ms: int) -> bool:
        """Return whether a follower has fetched within the time in which it may lag."""
        progress = self.followers[follower_id]
        fetched_ms = progress.fetched_ms if progress.beat is None else progress.beat.fetched_ms
        return now_ms - fetched_ms <= self.lag_max_ms

    def decide_shrink(self, log_end_offset: int, now_ms: int) -> tuple[int, ...] | None:
        """Return the ISR without followers that lag too long, or unchanged to end an ELR; None if it can stay."""
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
        """Note that an ISR is being written to the metadata store."""
        invariant(self.pending is None, "the ISR is changed while another change is pending")
        invariant(self.broker_id in isr, "a leader proposes an ISR without itself")
        invariant(set(isr) - set(self.isr) <= set(self.followers), "a broker joins the ISR that is not a replica")
        self.pending = isr
        self._maximal = frozenset((*self.isr, *isr))

    def give_up(self) -> None:
        """Note that the pending change has certainly not taken effect."""
        invariant(self.pending is not None, "a change of the ISR is given up and none is pending")
        self.on_isr(self.isr, self.elr)

    def low_watermark(self, log_start_offset: int, is_live: Callable[[int], bool]) -> int:
        """Return the highest log start offset that no replica is below that is live or may be elected.

        DeleteRecords waits for it. A replica of the ISR or the ELR may be elected as soon as it comes back. In Kafka,
        which waits for live replicas only, the deleted records return with it.
        """
        electable = {*self._maximal, *self.elr}
        counted = (progress for other, progress in self.followers.items() if other in electable or is_live(other))
        starts = [progress.log_start_offset for progress in counted]
        return min([log_start_offset, *starts])

    def _is_caught_up(self, progress: Progress, log_end_offset: int, now_ms: int) -> bool:
        return progress.end_offset >= log_end_offset or now_ms - progress.caught_up_ms <= self.lag_max_ms
