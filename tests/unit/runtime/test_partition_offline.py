"""A replica in which an invariant fails goes offline, as if its disk had failed, and the others go on.

Such a bug once cost the one request, or ended the task that met it, and the replica went on from a state that could
not be right.
"""

import logging
from collections.abc import Callable

import pytest
from tests.logged import logged, own_records
from tests.unit.runtime.test_partition import Waiter
from tests.unit.runtime.test_partition_role import Bench
from tests.unit.sample import NOW_MS, make_batch

from tailrace.base.invariant import InvariantError
from tailrace.base.sentinel import NO_EPOCH
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import BatchHeader
from tailrace.runtime.append import TransactionMarker
from tailrace.storage.error import StorageError
from tailrace.storage.log import Log


def assert_offline(bench: Bench, caplog: pytest.LogCaptureFixture, reason: str) -> None:
    partition = bench.partition
    assert partition.is_offline
    assert not partition.is_sure_to_lead
    assert partition.leadership is None
    assert bench.refusal() is ErrorCode.KAFKA_STORAGE_ERROR
    for check in (partition.check_leader, partition.check_leader_epoch):
        with pytest.raises(ApiError) as caught:
            check(NO_EPOCH)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ApiError) as caught:
        partition.delete_records(-1)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [record.levelno for record in own_records(caplog)] == [logging.CRITICAL]
    assert "t-0 goes offline after a bug in Tailrace" in logged(caplog)
    assert reason in logged(caplog)


def misplace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the log append batches and tell a wrong offset."""
    append = Log.append

    def wrong(log: Log, batch: memoryview, header: BatchHeader, leader_epoch: int, at_offset: int | None) -> int:
        return append(log, batch, header, leader_epoch, at_offset) + 1

    monkeypatch.setattr(Log, "append", wrong)


async def test_an_append_that_lands_elsewhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.lead()
    end = bench.produce(b"a")
    misplace(monkeypatch)
    assert bench.refusal() is ErrorCode.KAFKA_STORAGE_ERROR
    assert end.result() is ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.partition.high_watermark == 0
    assert_offline(bench, caplog, "a batch at offset 2 ends at 2")


def test_a_marker_that_lands_elsewhere(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.lead(isr=(1,))
    misplace(monkeypatch)
    with pytest.raises(ApiError) as caught:
        bench.partition.append_marker(TransactionMarker(7, 0, 0, 1, is_commit=True), NOW_MS)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert_offline(bench, caplog, "a batch at offset 1 ends at 1")


def test_a_high_watermark_above_the_log_end(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.lead()
    bench.append(b"a")
    bench.partition.advance_high_watermark(2, 0)
    assert bench.partition.high_watermark == 0
    assert_offline(bench, caplog, "high watermark 2 above the log end offset 1")


@pytest.mark.parametrize("change", [lambda bench: bench.lead(3), lambda bench: bench.follow(3)], ids=["lead", "follow"])
def test_a_leader_epoch_that_goes_back(change: Callable[[Bench], None], caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.lead(4)
    change(bench)
    assert bench.partition.leader_epoch == 4
    assert_offline(bench, caplog, "t-0: leader epoch 3 after 4")


def test_a_leader_that_is_written_by_a_fetcher(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.lead()
    for write in (
        lambda: bench.partition.append_replicated(make_batch(b"a"), 0),
        lambda: bench.partition.truncate_to(0),
        lambda: bench.partition.learn(0, 0),
    ):
        with pytest.raises(StorageError):
            write()
    assert bench.partition.log.log_end_offset == 0
    assert_offline(bench, caplog, "is led here and written by a fetcher")


def test_a_replica_that_is_offline_keeps_its_place_and_serves_in_no_role(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    reader = Waiter()
    bench.lead()
    bench.partition.waiters.add(reader)
    bench.partition.go_offline(InvariantError("two leaders"))
    bench.partition.go_offline(InvariantError("once more"))
    assert reader.told == ["disturbed"]
    assert_offline(bench, caplog, "two leaders")
    bench.follow(1)
    with pytest.raises(StorageError):
        bench.partition.append_replicated(make_batch(b"a"), 1)
    bench.lead(2)
    assert (bench.partition.is_leader, bench.partition.leader_epoch) == (True, 2)
    assert_offline(bench, caplog, "two leaders")
