"""The rule by which a leader acknowledges records, as a table, in each of the ways to wait for it."""

import asyncio
from typing import Any, NamedTuple, cast

import pytest

from tailrace.base.sentinel import ACKS_ALL
from tailrace.protocol.errors import ErrorCode
from tailrace.runtime.acknowledgement import (
    PendingAcknowledgement,
    acknowledge,
    wait_for_acknowledgements,
    when_acknowledged,
)
from tailrace.runtime.partition import Partition
from tailrace.storage.error import StorageError

END_OFFSET = 7
DISK_ERROR = StorageError("/data/t-0", OSError("broken"))
CANCELLED = "cancelled"
NEVER = "never"
NOTHING = "nothing to wait for"


class FakePartition:
    """A partition whose flush and high watermark the test moves."""

    def __init__(self, *, flushes: bool, replicates: bool) -> None:
        self.leader_epoch = 3
        self.is_sure_to_lead = True
        loop = asyncio.get_running_loop()
        self.flush_end: asyncio.Future[StorageError | None] | None = loop.create_future() if flushes else None
        self.reached: asyncio.Future[ErrorCode | None] | None = loop.create_future() if replicates else None

    def high_watermark_reached(self, offset: int) -> asyncio.Future[ErrorCode | None] | None:
        assert offset == END_OFFSET
        return self.reached

    @property
    def as_partition(self) -> Partition:
        return cast("Partition", self)


class Case(NamedTuple):
    """What happens while an acknowledgement waits."""

    code: ErrorCode
    flush: Any = NOTHING
    reached: Any = NOTHING
    epoch_after: int = 3
    is_sure_after: bool = True


OK, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
STORAGE, TIMED_OUT = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT
TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

TABLE = {
    "flushed": Case(OK, flush=None),
    "replicated": Case(OK, reached=None),
    "flushed and replicated": Case(OK, flush=None, reached=None),
    "flush failed": Case(STORAGE, flush=DISK_ERROR),
    "flush failed before replication": Case(STORAGE, flush=DISK_ERROR, reached=NEVER),
    "broker stopped during the flush": Case(STORAGE, flush=CANCELLED, reached=NEVER),
    "another epoch after the flush": Case(NOT_LEADER, flush=None, epoch_after=4),
    "lease lost during the flush": Case(NOT_LEADER, flush=None, is_sure_after=False),
    "too few replicas": Case(TOO_FEW, reached=TOO_FEW),
    "another leader while it replicates": Case(NOT_LEADER, reached=NOT_LEADER, is_sure_after=False),
    "another epoch while it replicates": Case(NOT_LEADER, reached=None, epoch_after=4),
    "lease lost while it replicates": Case(NOT_LEADER, reached=None, is_sure_after=False),
    "lease lost while it is flushed and replicates": Case(NOT_LEADER, flush=None, reached=None, is_sure_after=False),
    "never replicated": Case(TIMED_OUT, reached=NEVER),
    "flushed and never replicated": Case(TIMED_OUT, flush=None, reached=NEVER),
    "never replicated and the lease lost": Case(TIMED_OUT, reached=NEVER, is_sure_after=False),
}


def happen(case: Case, partition: FakePartition) -> None:
    partition.leader_epoch, partition.is_sure_to_lead = case.epoch_after, case.is_sure_after
    for future, result in ((partition.flush_end, case.flush), (partition.reached, case.reached)):
        if future is None or result is NEVER:
            continue
        if result is CANCELLED:
            future.cancel()
        else:
            future.set_result(result)


@pytest.mark.parametrize("name", TABLE)
async def test_the_rule_for_a_caller_that_waits_for_many(name: str) -> None:
    case = TABLE[name]
    partition = FakePartition(flushes=case.flush is not NOTHING, replicates=case.reached is not NOTHING)
    pending = acknowledge(partition.as_partition, END_OFFSET)
    assert isinstance(pending, PendingAcknowledgement)
    happen(case, partition)
    await wait_for_acknowledgements([pending], timeout_ms=0)
    assert pending.code is case.code


@pytest.mark.parametrize("name", TABLE)
async def test_the_rule_for_a_caller_that_is_called_back(name: str) -> None:
    case = TABLE[name]
    partition = FakePartition(flushes=case.flush is not NOTHING, replicates=case.reached is not NOTHING)
    told: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    when_acknowledged(partition.as_partition, END_OFFSET, 1, told.set_result)
    assert not told.done()
    happen(case, partition)
    assert await told is case.code


@pytest.mark.parametrize(("is_sure", "code"), [(True, OK), (False, NOT_LEADER)])
async def test_the_rule_where_nothing_is_waited_for(is_sure: bool, code: ErrorCode) -> None:
    partition = FakePartition(flushes=False, replicates=False)
    partition.is_sure_to_lead = is_sure
    assert acknowledge(partition.as_partition, END_OFFSET) is code
    told: list[ErrorCode] = []
    when_acknowledged(partition.as_partition, END_OFFSET, 1, told.append)
    assert told == [code]


async def test_acks_one_waits_for_the_flush_and_not_for_replicas() -> None:
    partition = FakePartition(flushes=True, replicates=True)
    pending = acknowledge(partition.as_partition, END_OFFSET, acks=1)
    assert isinstance(pending, PendingAcknowledgement)
    assert pending.reached is None
    assert partition.flush_end is not None
    partition.flush_end.set_result(None)
    assert pending.code is OK
    partition.flush_end = None
    assert acknowledge(partition.as_partition, END_OFFSET, acks=1) is OK


async def test_the_time_limit_begins_after_the_flush() -> None:
    """Kafka's limit is for the replicas, too: its leader flushes before it begins to wait."""
    partition = FakePartition(flushes=True, replicates=True)
    pending = acknowledge(partition.as_partition, END_OFFSET, acks=ACKS_ALL)
    assert isinstance(pending, PendingAcknowledgement)
    waiting = asyncio.create_task(wait_for_acknowledgements([pending], timeout_ms=0))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert partition.flush_end is not None
    assert partition.reached is not None
    partition.reached.set_result(None)
    partition.flush_end.set_result(None)
    await waiting
    assert pending.code is OK
