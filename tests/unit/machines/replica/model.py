"""Replicas without disks: a log as a list of values with their epochs, and fetches as calls."""

from bisect import bisect_right
from collections.abc import Iterable

from tailrace.machines.replica.epoch import find_divergence
from tailrace.machines.replica.follower import decide_truncation, next_position
from tailrace.machines.replica.leader import LeaderReplica

LAG_MAX_MS = 1_000


def always(_broker_id: int, _broker_epoch: int) -> bool:
    return True


class ModelLog:
    """Values and the epochs that wrote them, from offset 0 on."""

    def __init__(self, entries: Iterable[tuple[int, str]] = ()) -> None:
        self.entries = list(entries)

    @property
    def log_end_offset(self) -> int:
        return len(self.entries)

    @property
    def latest_epoch(self) -> int:
        return self.entries[-1][0] if self.entries else -1

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        epochs = [epoch for epoch, _ in self.entries]
        if not epochs or leader_epoch == -1 or leader_epoch > epochs[-1]:
            return -1, -1
        end = bisect_right(epochs, leader_epoch)
        if end == 0:
            return leader_epoch, 0
        return epochs[end - 1], end


class ModelBroker:
    """A replica of one partition on one broker."""

    def __init__(self, broker_id: int, entries: Iterable[tuple[int, str]] = ()) -> None:
        self.broker_id = broker_id
        self.log = ModelLog(entries)
        self.high_watermark = 0
        self.machine: LeaderReplica | None = None
        self.truncations: list[int] = []

    @property
    def values(self) -> list[str]:
        return [value for _, value in self.log.entries]

    def lead(
        self, epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...], *, min_isr: int = 1, now_ms: int = 0
    ) -> LeaderReplica:
        self.machine = LeaderReplica(
            self.broker_id,
            epoch,
            replicas=replicas,
            isr=isr,
            epoch_start_offset=self.log.log_end_offset,
            min_isr=min_isr,
            lag_max_ms=LAG_MAX_MS,
            now_ms=now_ms,
        )
        self.settle(now_ms)
        return self.machine

    def produce(self, *values: str, now_ms: int = 0) -> None:
        assert self.machine is not None
        self.log.entries += [(self.machine.leader_epoch, value) for value in values]
        self.settle(now_ms)

    def settle(self, now_ms: int = 0) -> None:
        """Move the high watermark as far as it may."""
        assert self.machine is not None
        committed = self.machine.committed_offset(self.log.log_end_offset, always, now_ms)
        self.high_watermark = max(self.high_watermark, committed)

    def fetch_from(self, leader: "ModelBroker", *, now_ms: int = 0, count: int = 100) -> None:
        """One fetch: truncate if the leader says so, else append what came and learn the high watermark."""
        assert leader.machine is not None
        position = next_position(self.log)
        diverging = find_divergence(leader.log, leader.machine.leader_epoch, *position)
        if diverging is not None:
            offset = decide_truncation(self.log, diverging, self.high_watermark)
            assert offset < self.log.log_end_offset, "each round cuts something"
            self.truncations.append(offset)
            del self.log.entries[offset:]
            return
        end_offset = leader.log.log_end_offset
        leader.machine.on_fetch(self.broker_id, 1, position.fetch_offset, 0, end_offset, now_ms)
        leader.settle(now_ms)
        self.log.entries += leader.log.entries[position.fetch_offset : position.fetch_offset + count]
        self.high_watermark = max(self.high_watermark, min(leader.high_watermark, self.log.log_end_offset))

    def catch_up(self, leader: "ModelBroker", *, now_ms: int = 0) -> None:
        """Fetch until there is nothing more to learn."""
        before = None
        while before != (before := (list(self.log.entries), self.high_watermark)):
            self.fetch_from(leader, now_ms=now_ms)
