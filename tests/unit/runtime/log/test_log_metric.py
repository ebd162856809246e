"""What a broker tells of its logs and of their compaction."""

import pytest
from tests.logged import logged
from tests.unit.runtime.group.test_group_metric import read
from tests.unit.runtime.log.test_log_compaction import NEVER, compact, create, fill
from tests.unit.sample import NOW_MS, BrokerInMemory

from tailrace.runtime.log.compaction import LogCompaction
from tailrace.storage.compaction import Compaction

CLEANER = "kafka_log_logcleaner"
MANAGER = "kafka_log_logcleanermanager"


async def test_logs_tell_their_size_and_offsets() -> None:
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        partition = await create(broker, "t", cleanup_policy="delete")
        await create(broker, "u")
        await fill(broker, partition, b"a", b"b", b"c")
        partition.delete_records(1)
        key, other = ("t", "0"), ("u", "0")
        assert read(broker, "kafka_log_log_size") == {key: partition.log.size_bytes, other: 0}
        assert read(broker, "kafka_log_log_size")[key] > 100
        assert read(broker, "kafka_log_log_numlogsegments") == {key: 2, other: 1}
        assert read(broker, "kafka_log_log_logstartoffset") == {key: 1, other: 0}
        assert read(broker, "kafka_log_log_logendoffset") == {key: 3, other: 0}


async def test_the_cleaner_tells_how_long_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        partition = await create(broker, "t")
        await fill(broker, partition, b"a", b"a")
        assert read(broker, f"{CLEANER}_max_clean_time_secs") == {(): 0}
        finish = Compaction.finish

        def slowly(self: Compaction) -> None:
            machine.clock.time_ms += 7000
            finish(self)

        monkeypatch.setattr(Compaction, "finish", slowly)
        await compact(broker)
        assert read(broker, f"{CLEANER}_max_clean_time_secs") == {(): 7}


async def test_the_cleaner_tells_for_how_long_it_is_late() -> None:
    machine = BrokerInMemory()
    async with machine.running(log_cleaner_enable="true", **NEVER) as broker:
        partition = await create(broker, "t", max_compaction_lag_ms="5000", min_cleanable_dirty_ratio="1")
        await fill(broker, partition, b"a", b"a")
        await compact(broker)
        assert read(broker, f"{CLEANER}_max_compaction_delay_secs") == {(): 0}
        machine.clock.time_ms = NOW_MS + 9000
        broker.compaction._dirtiest()
        assert read(broker, f"{CLEANER}_max_compaction_delay_secs") == {(): 4}
        await compact(broker)
        assert read(broker, f"{CLEANER}_max_compaction_delay_secs") == {(): 0}


async def test_what_cannot_be_compacted_is_told_by_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = BrokerInMemory()
    async with machine.running(log_dirs="/data,/more", **NEVER) as broker:
        partition = await create(broker, "t")
        await fill(broker, partition, b"a", b"a")
        assert set(read(broker, f"{MANAGER}_uncleanable_partitions_count").values()) == {0}
        monkeypatch.setattr(Compaction, "build_map", lambda self: 1 / 0)
        await compact(broker)
        path = partition.log.folder.path
        other = ({"/data", "/more"} - {path}).pop()
        assert read(broker, f"{MANAGER}_uncleanable_partitions_count") == {(path,): 1, (other,): 0}
        assert read(broker, f"{MANAGER}_uncleanable_bytes") == {(path,): partition.log.size_bytes, (other,): 0}


async def test_a_cleaner_that_died_is_seen(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    machine = BrokerInMemory()
    async with machine.running(**NEVER) as broker:
        assert read(broker, f"{CLEANER}_deadthreadcount") == {(): 0}
        monkeypatch.setattr(LogCompaction, "start_due", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await broker.compaction.run()
        assert read(broker, f"{CLEANER}_deadthreadcount") == {(): 1}
        assert "no log is compacted until the broker restarts" in logged(caplog)
