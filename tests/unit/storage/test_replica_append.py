"""A follower's log: the leader's bytes, nothing else."""

from collections.abc import Callable
from uuid import UUID

import pytest
from tests.unit.sample import ManualClock
from tests.unit.storage.workbench import Workbench

from tailrace.records.batch import read_header
from tailrace.records.control import ControlType
from tailrace.records.error import CorruptBatch
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir
from tailrace.storage.memory_fs import MemoryFileSystem
from tailrace.storage.replica_append import append_replicated

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
EVERYTHING = 1 << 30


class Pair:
    """A leader's log and a follower's, each in a folder of its own."""

    def __init__(self, config: LogConfig | None = None) -> None:
        self.leader_bench, self.follower_bench = Workbench(), Workbench()
        self.leader = self.leader_bench.open(config)
        self.follower = self.follower_bench.open(config)

    def fetched(self, size_bytes_max: int = EVERYTHING) -> bytearray:
        end = self.follower.log_end_offset
        return bytearray(self.leader.read(end, size_bytes_max, self.leader.log_end_offset, True))

    def replicate(self, size_bytes_max: int = EVERYTHING, leader_epoch: int = 100) -> None:
        while data := self.fetched(size_bytes_max):
            assert append_replicated(self.follower, data, leader_epoch) > 0


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_a_followers_file_is_the_leaders_byte_by_byte(pair: Pair) -> None:
    for epoch in (0, 0, 3):
        pair.leader_bench.append(pair.leader, b"a", b"b", leader_epoch=epoch)
    pair.replicate()
    name = "00000000000000000000.log"
    assert pair.follower_bench.contents(name) == pair.leader_bench.contents(name)
    assert pair.follower.log_end_offset == 6
    assert pair.follower.epochs.starts == pair.leader.epochs.starts


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch(pair: Pair) -> None:
    pair.leader_bench.append(pair.leader, b"a" * 50)
    pair.leader_bench.append(pair.leader, b"b" * 50)
    data = pair.fetched()
    first = read_header(data).size_bytes
    assert append_replicated(pair.follower, data[: first + 70], 0) == first
    assert pair.follower.log_end_offset == 1


def test_producers_and_transactions_are_known_as_if_it_had_led(pair: Pair) -> None:
    pair.leader_bench.produce(pair.leader, 0, 3)
    pair.leader_bench.transact(pair.leader, 9, b"x")
    pair.leader_bench.end(pair.leader, 9, ControlType.ABORT)
    pair.replicate()
    duplicate = pair.follower.producers.check(pair.follower_bench.header(0, 3))
    assert duplicate is not None
    assert duplicate.base_offset == 0
    assert pair.follower.aborted_transactions(0, 5) == pair.leader.aborted_transactions(0, 5)


def test_gaps_of_compaction_stay_where_they_are_and_survive_a_crash(bench: Workbench) -> None:
    """A gap may come to stand where the follower begins a segment, which is not where the leader did."""
    pair = Pair(SMALL)
    batches = []
    for number in range(24):
        data, header = pair.leader_bench.batch(b"v" * 40)
        base_offset = pair.leader.append(data, header, 0)
        if number % 5 not in (1, 3) or number == 23:
            batches.append((base_offset, bytearray(data)))
    for _, data in batches:
        append_replicated(pair.follower, data, 0)
    offsets = [offset for offset, _ in pair.follower_bench.values(pair.follower)]
    assert offsets == [offset for offset, _ in batches]
    assert len(pair.follower.segments) > 2
    again = pair.follower_bench.open(SMALL, recovery_point=0)
    assert [offset for offset, _ in pair.follower_bench.values(again)] == offsets
    assert again.log_end_offset == 24


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data.__setitem__(len(data) - 1, data[-1] ^ 1), "checksum"),
        (lambda data: data.__setitem__(slice(0, 8), (0).to_bytes(8)), "offsets 0 to 0 at log end offset 1"),
        (lambda data: data.__setitem__(slice(12, 16), (8).to_bytes(4)), "epoch 8 is not in"),
        (lambda data: data.__setitem__(slice(12, 16), (1).to_bytes(4)), "epoch 1 is not in"),
        (lambda data: data.__setitem__(slice(23, 27), b"\xff\xff\xff\xff"), "offsets 1 to 0"),
        (lambda data: data.__setitem__(16, 7), "magic"),
    ],
)
def test_nothing_that_a_leader_sends_is_believed(pair: Pair, damage: Callable[[bytearray], None], words: str) -> None:
    pair.leader_bench.append(pair.leader, b"a", leader_epoch=2)
    pair.replicate()
    pair.leader_bench.append(pair.leader, b"b", leader_epoch=2)
    data = pair.fetched()
    damage(data)
    with pytest.raises(CorruptBatch, match=words):
        append_replicated(pair.follower, data, 7)
    assert pair.follower.log_end_offset == 1


def test_what_stands_before_the_damage_is_kept(pair: Pair) -> None:
    pair.leader_bench.append(pair.leader, b"a")
    pair.leader_bench.append(pair.leader, b"b")
    data = pair.fetched()
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        append_replicated(pair.follower, data, 0)
    assert pair.follower.log_end_offset == 1


def test_a_follower_that_truncated_and_followed_again_equals_its_leader(pair: Pair) -> None:
    pair.leader_bench.append(pair.leader, b"a", leader_epoch=0)
    pair.replicate()
    pair.follower_bench.append(pair.follower, b"fork", b"fork", leader_epoch=1)
    pair.leader_bench.append(pair.leader, b"b", leader_epoch=2)
    pair.follower.truncate_to(1)
    pair.replicate()
    assert pair.follower.epochs.starts == pair.leader.epochs.starts
    assert pair.follower_bench.values(pair.follower) == [(0, b"a"), (1, b"b")]


def test_high_watermarks_are_written_down_for_the_logs_that_are_here() -> None:
    fs = MemoryFileSystem()
    log_dir = LogDir.open(fs, "/data", ManualClock())
    assert log_dir.read_high_watermarks() == {}
    log_dir.create("t", 0, UUID(int=1), LogConfig())
    log_dir.write_high_watermarks({("t", 0): 7, ("elsewhere", 0): 9})
    assert log_dir.read_high_watermarks() == {("t", 0): 7}
    # Kafka's file, so that its tools and an older life of the folder read it.
    assert fs.read_file("/data/replication-offset-checkpoint") == b"0\n1\nt 0 7\n"


def test_a_log_begins_in_the_middle_of_a_batch_where_the_leaders_does(pair: Pair) -> None:
    """DeleteRecords may leave a log start inside a batch. A new replica began its log there and rejected the batch, as
    one that is below its log end offset, with every fetch for ever: it never came into the ISR.
    """
    pair.leader_bench.append(pair.leader, b"a")
    pair.leader_bench.append(pair.leader, b"b", b"c", b"d")
    pair.leader_bench.append(pair.leader, b"e")
    pair.leader.advance_log_start(2)
    pair.follower.truncate_fully(2)
    pair.replicate()
    assert (pair.follower.log_start_offset, pair.follower.log_end_offset) == (2, 5)
    assert pair.follower.segments[0].base_offset == 1


def test_a_follower_that_begins_inside_a_batch_keeps_the_producers_that_its_leader_has_told(pair: Pair) -> None:
    bench = pair.leader_bench
    bench.produce(pair.leader, 0)
    bench.produce(pair.leader, 1, count=3)
    pair.leader.advance_log_start(2)
    pair.follower.truncate_fully(2, pair.leader.producers.known_before(2))
    pair.replicate()
    assert (pair.follower.log_start_offset, pair.follower.log_end_offset) == (2, 4)
    for sequence, count in ((0, 1), (1, 3)):
        assert pair.follower.producers.check(bench.header(sequence, count=count)) is not None


def test_a_damaged_batch_around_the_log_start_begins_no_log(pair: Pair) -> None:
    pair.leader_bench.append(pair.leader, b"a", b"b", b"c")
    pair.leader.advance_log_start(1)
    pair.follower.truncate_fully(1)
    data = pair.fetched()
    data[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        append_replicated(pair.follower, data, 100)
    assert (pair.follower.log_start_offset, pair.follower.log_end_offset) == (1, 1)


def test_a_follower_begins_with_the_batch_that_holds_the_leaders_log_start(pair: Pair) -> None:
    """DeleteRecords had cut inside a batch. A new follower rejected that batch for ever, as one below its log."""
    for epoch in (1, 2):
        pair.leader_bench.append(pair.leader, b"a", b"b", b"c", leader_epoch=epoch)
    pair.leader.advance_log_start(4)
    pair.follower.truncate_fully(4)
    pair.replicate()
    assert (pair.follower.log_start_offset, pair.follower.log_end_offset) == (4, 6)
    assert pair.follower.epochs.starts == pair.leader.epochs.starts
    assert bytes(pair.follower.read(4, EVERYTHING, 6, True)) == bytes(pair.leader.read(4, EVERYTHING, 6, True))


def test_a_batch_below_a_log_that_has_records_is_still_rejected(pair: Pair) -> None:
    pair.leader_bench.append(pair.leader, b"a", b"b", b"c")
    data = pair.fetched()
    pair.follower_bench.append(pair.follower, b"x", b"y")
    pair.follower.advance_log_start(1)
    with pytest.raises(CorruptBatch, match="log end offset 2"):
        append_replicated(pair.follower, data, 100)


def test_a_follower_takes_a_batch_that_is_larger_than_its_segments() -> None:
    """After segment.bytes was lowered, a follower could fetch no partition from the leader of such a batch."""
    pair = Pair()
    pair.leader_bench.append(pair.leader, b"a" * 500)
    pair.leader_bench.append(pair.leader, b"b")
    pair.follower.reconfigure(SMALL)
    pair.replicate()
    assert pair.follower.log_end_offset == 2
    assert [segment.base_offset for segment in pair.follower.segments] == [0, 1]
