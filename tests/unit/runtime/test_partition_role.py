"""A partition with replicas: who leads, what is committed, and who hears of it."""

import asyncio
from uuid import UUID

import pytest
from tests.logged import own_records
from tests.now import now
from tests.unit.runtime.test_partition import Waiter
from tests.unit.sample import NOW_MS, ManualClock, make_batch, records_of

from tailrace.base.sentinel import ACKS_ALL, NO_BROKER
from tailrace.config.broker import BrokerConfig
from tailrace.config.topic import TopicConfig
from tailrace.machines.controller.record import PartitionRecord
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import read_header
from tailrace.runtime.lease import Lease
from tailrace.runtime.offset_wait import OffsetReached
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.leadership import ReplicaWorld
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir
from tailrace.storage.memory_fs import MemoryFileSystem

LAG_MAX_MS = 1_000


class Desk:
    """Takes note of the ISRs that are asked for."""

    def __init__(self) -> None:
        self.proposed: list[tuple[int, ...]] = []
        self.epochs = {2: 20, 3: 30}

    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        return self.epochs.get(broker_id) == broker_epoch

    def is_live(self, _broker_id: int) -> bool:
        return True

    def watch(self, _partition: Partition) -> None:
        """Nobody looks."""

    def propose(self, _partition: Partition, isr: tuple[int, ...]) -> None:
        self.proposed.append(isr)


class Bench:
    """Broker 1's replica of a partition with replicas on 1, 2 and 3."""

    def __init__(self, *, high_watermark: int = 0, **configs: str) -> None:
        config = TopicConfig.resolve({name.replace("_", "."): value for name, value in configs.items()}, BrokerConfig())
        self.clock, self.desk = ManualClock(), Desk()
        self.lease_ms = float("inf")
        log_dir = LogDir.open(MemoryFileSystem(), "/data", self.clock)
        storage = log_dir.create("t", 0, UUID(int=1), LogConfig.of_topic(config))
        lease = Lease(self.clock, lambda: self.lease_ms)
        self.partition = Partition("t", UUID(int=1), 0, storage, config, high_watermark=high_watermark, lease=lease)
        self.world = ReplicaWorld(1, self.clock, LAG_MAX_MS, self.desk)

    def lead(self, epoch: int = 0, isr: tuple[int, ...] = (1, 2, 3), elr: tuple[int, ...] = ()) -> None:
        self.partition.lead(PartitionRecord("t", 0, 1, epoch, isr, elr), (1, 2, 3), self.world)

    def follow(self, epoch: int, leader: int = 2) -> None:
        self.partition.follow(PartitionRecord("t", 0, leader, epoch, (1, 2, 3)))

    def append(self, *values: bytes, acks: int = ACKS_ALL) -> int:
        batch = memoryview(make_batch(*values))
        return self.partition.append(batch, read_header(batch), acks, NOW_MS).base_offset

    def produce(self, *values: bytes) -> OffsetReached:
        base_offset = self.append(*values)
        end = self.partition.high_watermark_reached(base_offset + len(values))
        assert end is not None
        return end

    def fetch(self, broker_id: int, offset: int, *, broker_epoch: int | None = None, start_offset: int = 0) -> None:
        leadership = self.partition.leadership
        assert leadership is not None
        leadership.on_fetch(broker_id, broker_id * 10 if broker_epoch is None else broker_epoch, offset, start_offset)

    def refusal(self) -> ErrorCode:
        with pytest.raises(ApiError) as caught:
            self.append(b"x")
        return caught.value.code


# --- roles


def test_nobody_writes_to_a_replica_that_does_not_lead() -> None:
    bench = Bench()
    assert bench.refusal() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.lead()
    bench.append(b"a")
    bench.follow(1)
    assert bench.refusal() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ApiError) as caught:
        bench.partition.delete_records(0)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.partition.retire()
    assert bench.refusal() is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_clients_of_a_leader_are_told_of_another_epoch_first_and_then_of_another_leader() -> None:
    bench = Bench()
    bench.follow(5, leader=NO_BROKER)
    for epoch, code in [
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (5, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]:
        with pytest.raises(ApiError) as caught:
            bench.partition.check_leader(epoch)
        assert caught.value.code is code


def test_a_leader_without_its_lease_takes_and_acknowledges_nothing() -> None:
    """It was stopped, or cannot reach the metadata store: another one may have been elected."""
    bench = Bench()
    bench.lead(isr=(1,))
    assert now(bench.partition.is_sure_to_lead)
    bench.lease_ms = bench.clock.time_ms
    assert not now(bench.partition.is_sure_to_lead)
    assert bench.refusal() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.partition.log.log_end_offset == 0
    bench.lease_ms = bench.clock.time_ms + 1
    bench.append(b"a")


# --- what is committed


async def test_acks_all_is_answered_when_everybody_in_sync_has_it() -> None:
    bench = Bench()
    bench.lead()
    end = bench.produce(b"a", b"b")
    bench.fetch(2, 2)
    assert not end.done()
    assert bench.partition.high_watermark == 0
    bench.fetch(3, 2)
    assert end.result() is None
    assert bench.partition.high_watermark == 2
    assert bench.partition.high_watermark_reached(2) is None


async def test_those_who_wait_are_woken_in_the_order_of_their_offsets() -> None:
    bench = Bench()
    bench.lead(isr=(1, 2))
    later, sooner = bench.produce(b"a", b"b"), bench.partition.high_watermark_reached(1)
    assert sooner is not None
    bench.fetch(2, 1)
    assert (sooner.done(), later.done()) == (True, False)
    bench.fetch(2, 2)
    assert later.result() is None


async def test_who_waits_is_told_when_another_leads() -> None:
    bench = Bench()
    bench.lead()
    end = bench.produce(b"a")
    bench.follow(1)
    assert end.result() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.partition.leadership is None


async def test_who_waits_is_told_when_too_few_are_left_in_sync() -> None:
    bench = Bench(min_insync_replicas="2")
    bench.lead(isr=(1, 2))
    end = bench.produce(b"a")
    bench.lead(isr=(1,), elr=(2,))
    assert end.result() is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert bench.partition.high_watermark == 0
    assert bench.refusal() is ErrorCode.NOT_ENOUGH_REPLICAS


async def test_who_gave_up_waiting_is_in_nobodys_way() -> None:
    bench = Bench()
    bench.lead(isr=(1, 2))
    bench.produce(b"a").cancel()
    bench.fetch(2, 1)
    assert bench.partition.high_watermark == 1


def test_readers_hear_of_what_is_committed_and_followers_of_what_is_written() -> None:
    bench, reader, follower = Bench(), Waiter(), Waiter()
    bench.lead(isr=(1, 2))
    bench.partition.waiters.add(reader)
    bench.partition.waiters.add(follower, for_end=True)
    bench.append(b"a")
    bench.append(b"b")
    assert reader.told == []
    size_bytes = len(make_batch(b"a"))
    assert follower.told == [size_bytes, size_bytes]
    bench.fetch(2, 1)
    bench.fetch(2, 2)
    assert reader.told == [size_bytes, size_bytes]
    bench.follow(1)
    assert (reader.told[-1], follower.told[-1]) == ("disturbed", "disturbed")


def test_a_new_leader_lets_nobody_read_what_may_not_be_committed() -> None:
    """It has more than it knows to be committed, until its followers have fetched in its epoch."""
    bench = Bench(high_watermark=0)
    bench.lead(isr=(1,))
    bench.append(b"a", b"b", acks=1)
    bench.follow(1)
    bench.partition.high_watermark = 1
    reader = Waiter()
    bench.partition.waiters.add(reader)
    bench.lead(2)
    assert (bench.partition.high_watermark, bench.partition.role.epoch_start_offset) == (1, 2)
    bench.fetch(2, 2)
    bench.fetch(3, 2)
    assert bench.partition.high_watermark == 2
    assert len(reader.told) == 1


def test_a_partition_that_gets_a_second_replica_waits_for_it_from_then_on() -> None:
    bench = Bench()
    bench.partition.lead(PartitionRecord("t", 0, 1, 0, (1,)), (1,), bench.world)
    bench.append(b"a")
    assert bench.partition.high_watermark == 1
    bench.lead(isr=(1,))
    bench.fetch(2, 1)
    assert bench.desk.proposed == [(1, 2)]
    bench.append(b"b")
    assert bench.partition.high_watermark == 1
    bench.lead(isr=(1, 2))
    bench.fetch(2, 2)
    assert bench.partition.high_watermark == 2


# --- the ISR


def test_a_change_of_the_isr_ends_only_with_a_new_state_of_the_partition() -> None:
    """Anything else that changes in the topic, its configuration for one, says nothing about it."""
    bench = Bench()
    record = PartitionRecord("t", 0, 1, 0, (1,))
    bench.partition.lead(record, (1, 2, 3), bench.world)
    bench.fetch(2, 0)
    leadership = bench.partition.leadership
    assert leadership is not None
    bench.partition.lead(record, (1, 2, 3), bench.world)
    assert now(leadership.machine.pending) == (1, 2)
    bench.fetch(3, 0)
    assert bench.desk.proposed == [(1, 2)]
    bench.lead(isr=(1, 2))
    assert leadership.machine.pending is None
    bench.fetch(3, 0)
    assert bench.desk.proposed == [(1, 2), (1, 2, 3)]


def test_a_follower_of_another_life_does_not_join() -> None:
    bench = Bench()
    bench.lead(isr=(1,))
    bench.fetch(2, 0, broker_epoch=19)
    assert bench.desk.proposed == []


def test_who_does_not_keep_up_leaves() -> None:
    bench = Bench()
    bench.lead()
    bench.append(b"a")
    bench.fetch(2, 1)
    bench.clock.time_ms += LAG_MAX_MS + 1
    leadership = bench.partition.leadership
    assert leadership is not None
    leadership.shrink()
    assert bench.desk.proposed == [(1, 2)]


# --- following


def _bytes_of(bench: Bench) -> bytearray:
    storage = bench.partition.log
    return bytearray(storage.read(0, 2**20, storage.log_end_offset, True))


def test_a_follower_has_its_leaders_bytes_and_shows_what_is_committed() -> None:
    leader, follower, reader = Bench(), Bench(), Waiter()
    leader.lead()
    leader.append(b"a", b"b")
    follower.follow(0)
    follower.partition.waiters.add(reader)
    data = _bytes_of(leader)
    assert follower.partition.append_replicated(data, 0) == len(data)
    follower.partition.learn(1, 0)
    assert follower.partition.high_watermark == 1
    assert len(reader.told) == 1
    follower.partition.learn(9, 1)
    assert (follower.partition.high_watermark, follower.partition.log.log_start_offset) == (2, 1)
    follower.partition.learn(0, 0)
    assert (follower.partition.high_watermark, follower.partition.log.log_start_offset) == (2, 1)
    assert [record.value for record in records_of(_bytes_of(leader))] == [b"a", b"b"]


async def test_a_flush_that_was_overtaken_by_a_cut_commits_nothing_that_is_not_there() -> None:
    """It ended when the broker led again, with a shorter log, and the high watermark went beyond its end."""
    bench = Bench(flush_messages="1")
    bench.lead(isr=(1,))
    bench.append(b"a", b"b")
    flush_end = bench.partition.flush_end
    assert flush_end is not None
    await asyncio.sleep(0)  # it begins
    bench.follow(1)
    bench.partition.truncate_to(0)
    bench.lead(2, isr=(1,))
    assert await flush_end is None
    assert bench.partition.high_watermark == bench.partition.log.log_end_offset == 0
    bench.append(b"c")
    assert bench.partition.high_watermark == 0
    flush_end = bench.partition.flush_end
    assert flush_end is not None
    assert await flush_end is None
    assert bench.partition.high_watermark == 1


def test_cutting_what_was_committed_is_told(caplog: pytest.LogCaptureFixture) -> None:
    leader, follower = Bench(), Bench()
    leader.lead()
    leader.append(b"a")
    leader.append(b"b")
    follower.follow(0)
    follower.partition.append_replicated(_bytes_of(leader), 0)
    follower.partition.learn(1, 0)
    follower.partition.truncate_to(1)
    assert own_records(caplog) == []
    follower.partition.truncate_to(0)
    assert follower.partition.high_watermark == 0
    assert (
        "t-0: truncated to offset 0 after an unclean election; committed records up to offset 1 are lost"
        in caplog.messages
    )
    follower.partition.truncate_to(7, is_full=True)
    assert follower.partition.log.log_start_offset == 7


def test_a_replica_that_begins_again_at_the_log_start_of_its_leader_knows_that_what_was_before_is_committed() -> None:
    """Its high watermark stayed below its log start. Then it was elected, and its follower was out of the ISR for a
    while: below min.insync.replicas the high watermark stays, the follower may not delete what is not committed, and
    as long as it had records that its leader had deleted, it could not join the ISR. So it never did."""
    bench, follower = Bench(min_insync_replicas="2"), Bench(high_watermark=1)
    bench.follow(0)
    bench.partition.truncate_to(3, is_full=True)
    assert bench.partition.high_watermark == bench.partition.log.log_start_offset == 3
    source = Bench()
    source.lead(isr=(1,))
    source.append(b"a")
    source.append(b"b")
    source.append(b"c")
    follower.follow(1)
    follower.partition.append_replicated(_bytes_of(source), 0)
    bench.lead(1, isr=(1,), elr=(2,))
    follower.partition.learn(bench.partition.high_watermark, bench.partition.log.log_start_offset)
    assert follower.partition.log.log_start_offset == 3
    bench.fetch(2, 3, start_offset=follower.partition.log.log_start_offset)
    assert bench.desk.proposed == [(1, 2)]


def test_a_checkpoint_below_the_log_start_is_out_of_date() -> None:
    """A leader restarted with such a high watermark, alone in the ISR and below min.insync.replicas. Its followers may
    not delete what is not committed, so none had deleted what it had, and none could join the ISR."""
    bench = Bench()
    bench.lead(isr=(1,))
    bench.append(b"a", b"b", b"c", acks=1)
    log = bench.partition.log
    log.advance_log_start(2)
    restarted = Partition("t", UUID(int=1), 0, log, bench.partition.config, high_watermark=1)
    assert restarted.high_watermark == 2
