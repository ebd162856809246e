"""What a fetcher says to a leader."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import cast
from uuid import UUID

import pytest
from tests.settled import settled
from tests.unit.runtime.test_partition_role import Bench
from tests.unit.sample import make_batch
from tests.unit.server.replication.cluster import until

from tailrace.base.clock import Clock
from tailrace.base.limits import THROTTLE_REST_MS_MAX
from tailrace.client.error import BrokerUnavailable
from tailrace.config.broker import BrokerConfig
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.fetch import FetchRequest, FetchResponse, FetchResponsePartition, FetchResponseTopic
from tailrace.protocol.messages.offset import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from tailrace.records.batch import assign_offsets
from tailrace.runtime.peer import Peer
from tailrace.runtime.replication.fetcher import ReplicaFetcher
from tailrace.runtime.replication.start_checkpoint import StartCheckpoints
from tailrace.runtime.replication.throttle import ReplicationThrottle
from tailrace.storage.retention import delete_files


def make_fetcher(
    leader: object,
    clock: Clock,
    worker: Executor,
    throttle: ReplicationThrottle,
    broker_epoch: Callable[[], int] = lambda: 1,
) -> ReplicaFetcher:
    """The fetcher of broker 1 that asks a leader of a test."""
    checkpoints = StartCheckpoints(BrokerConfig, clock, worker)
    return ReplicaFetcher(cast(Peer, leader), 1, broker_epoch, BrokerConfig, clock, worker, throttle, checkpoints)


class QuietLeader:
    """A peer, and its connection, on which a leader without news answers."""

    broker_id = 2

    def __init__(self) -> None:
        self.requests: asyncio.Queue[FetchRequest] = asyncio.Queue()

    async def connect(self) -> "QuietLeader":
        return self

    async def request(self, request: FetchRequest, reply_type: type[FetchResponse], **_: object) -> FetchResponse:
        self.requests.put_nowait(request)
        await asyncio.sleep(0)
        return reply_type(session_id=7)

    async def close(self) -> None:
        """Nothing is held."""


async def test_a_leader_hears_of_every_partition_again_when_the_follower_begins_another_life() -> None:
    """Else it would not let the follower of a quiet partition into the ISR: it fetched in a life that is unknown."""
    bench, leader, epochs = Bench(), QuietLeader(), [-1]
    bench.follow(epoch=0)
    throttle = ReplicationThrottle(1, bench.clock, lambda: 1, lambda _: "")
    with ThreadPoolExecutor(1) as worker:
        fetcher = make_fetcher(leader, bench.clock, worker, throttle, lambda: epochs[-1])
        fetcher.add(bench.partition)
        fetching = asyncio.ensure_future(fetcher.run())

        def said(request: FetchRequest) -> tuple[int, int]:
            assert request.replica_state is not None
            return request.replica_state.replica_epoch, len(request.topics)

        assert [said(await leader.requests.get()) for _ in range(2)] == [(-1, 1), (-1, 0)]
        epochs.append(57)
        later = [said(await leader.requests.get()) for _ in range(3)]
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
    assert (57, 1) in later
    assert later[-1] == (57, 0)


async def test_a_leader_hears_where_the_log_begins_when_the_followers_own_retention_moves_it() -> None:
    """Else it sends consumers in the follower's rack there for records that are gone, again and again, until the next
    record of the partition is written.
    """
    bench, leader = Bench(retention_ms="0"), QuietLeader()
    bench.follow(epoch=0)
    batch = bytearray(make_batch(b"a", b"b"))
    assign_offsets(batch, 0, 0, 0)
    bench.partition.append_replicated(batch, 0)
    bench.partition.learn(2, 0)
    throttle = ReplicationThrottle(1, bench.clock, lambda: 1, lambda _: "")
    with ThreadPoolExecutor(1) as worker:
        fetcher = make_fetcher(leader, bench.clock, worker, throttle)
        fetcher.add(bench.partition)
        fetching = asyncio.ensure_future(fetcher.run())

        def starts(request: FetchRequest) -> list[int]:
            return [partition.log_start_offset for topic in request.topics for partition in topic.partitions]

        assert [starts(await leader.requests.get()) for _ in range(2)] == [[0], []]
        assert bench.partition.apply_retention(2**62) == 1
        early = [starts(await leader.requests.get()) for _ in range(3)]
        delete_files(bench.partition.log)
        later = [starts(await leader.requests.get()) for _ in range(3)]
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
    assert [2] not in early  # a crash would bring the files back
    assert [2] in later


class FullLeader(QuietLeader):
    """A leader that has nothing where the first partition's log ends, and says where it begins when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def request(self, request: Message, reply_type: type[Message], **_: object) -> Message:  # type: ignore[override]
        if isinstance(request, ListOffsetsRequest):
            self.is_asked.set()
            await self.may_answer.wait()
            found = ListOffsetsResponsePartition(partition_index=0, offset=0)
            return ListOffsetsResponse(topics=[ListOffsetsResponseTopic(name="t", partitions=[found])])
        assert isinstance(request, FetchRequest)
        self.requests.put_nowait(request)
        await asyncio.sleep(0)
        if request.session_epoch:
            return FetchResponse(session_id=7)
        answers = [
            FetchResponsePartition(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
            FetchResponsePartition(partition_index=1, high_watermark=0, log_start_offset=0),
        ]
        return FetchResponse(session_id=7, responses=[FetchResponseTopic(topic_id=UUID(int=1), partitions=answers)])


@asynccontextmanager
async def interrupted() -> AsyncIterator[tuple[FullLeader, ReplicaFetcher, Bench]]:
    """A fetcher of two partitions that is told of both and waits to hear where the log of the first begins."""
    first, second, leader = Bench(), Bench(), FullLeader()
    second.partition.index = 1
    throttle = ReplicationThrottle(1, first.clock, lambda: 1, lambda _: "")
    with ThreadPoolExecutor(1) as worker:
        fetcher = make_fetcher(leader, first.clock, worker, throttle)
        for bench in (first, second):
            bench.follow(epoch=0)
            fetcher.add(bench.partition)
        fetching = asyncio.ensure_future(fetcher.run())
        await leader.is_asked.wait()
        await leader.requests.get()
        async with asyncio.timeout(60):
            yield leader, fetcher, second
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)


async def test_a_partition_that_goes_while_another_begins_again_is_not_asked_for_any_more() -> None:
    """Its answer had come together with the other's. It was noted as one to ask for, and every fetch failed then."""
    async with interrupted() as (leader, fetcher, second):
        fetcher.remove(second.partition)
        leader.may_answer.set()
        request = await leader.requests.get()
        assert [item.partition for topic in request.topics for item in topic.partitions] == []
        assert [(topic.topic_id, topic.partitions) for topic in request.forgotten_topics_data] == [(UUID(int=1), [1])]


async def test_a_partition_that_gets_another_epoch_while_another_begins_again_is_told_of_again() -> None:
    async with interrupted() as (leader, fetcher, second):
        second.follow(epoch=1)
        fetcher.add(second.partition)
        leader.may_answer.set()
        assert (await leader.requests.get()).session_epoch == 1
        assert (await leader.requests.get()).session_epoch == 0


# --- asking ahead


class SendingLeader:
    """A peer, and its connection, on which the test answers each fetch when it likes."""

    broker_id = 2

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self.answers: asyncio.Queue[FetchResponsePartition | None] = asyncio.Queue()
        self.session_epoch = -1
        self.told_start_offset = -1

    async def connect(self) -> "SendingLeader":
        return self

    async def request(self, request: FetchRequest, reply_type: type[FetchResponse], **_: object) -> FetchResponse:
        self.session_epoch = request.session_epoch
        for topic in request.topics:
            for item in topic.partitions:
                self.told_start_offset = item.log_start_offset
                self.asked.put_nowait((item.fetch_offset, item.last_fetched_epoch))
        answer = await self.answers.get()
        topics = [] if answer is None else [FetchResponseTopic(topic_id=UUID(int=1), partitions=[answer])]
        return reply_type(session_id=7, responses=topics)

    async def close(self) -> None:
        """Nothing is held."""

    def send(self, *batches: bytearray, high_watermark: int, end_offset: int = 0, log_start_offset: int = 0) -> None:
        """Answer with batches of one record each, of which the last stands before `end_offset`."""
        for number, batch in enumerate(reversed(batches), start=1):
            assign_offsets(batch, 0, end_offset - number, 3)
        records = memoryview(bytearray(b"".join(batches)))
        self.answers.put_nowait(
            FetchResponsePartition(
                partition_index=0, high_watermark=high_watermark, log_start_offset=log_start_offset, records=records
            )
        )

    def stay_quiet(self) -> None:
        """Answer without news."""
        self.answers.put_nowait(None)

    def refuse(self, code: ErrorCode) -> None:
        """Answer with an error."""
        self.answers.put_nowait(
            FetchResponsePartition(partition_index=0, error_code=code, records=memoryview(bytearray()))
        )


class Seat:
    """A follower in leader epoch 3, whose fetcher asks a scripted leader."""

    def __init__(self, worker: Executor, throttled: str) -> None:
        self.bench, self.leader = Bench(), SendingLeader()
        self.bench.follow(epoch=3)
        clock = self.bench.clock
        self.bytes_per_second = 2**40
        throttle = ReplicationThrottle(1, clock, lambda: self.bytes_per_second, lambda _: throttled)
        self.fetcher = make_fetcher(self.leader, clock, worker, throttle)
        self.fetcher.add(self.bench.partition)

    @property
    def end_offset(self) -> int:
        return self.bench.partition.log.log_end_offset

    async def asked(self) -> tuple[int, int, int]:
        """What is asked for next, and where the log ends in that moment."""
        async with asyncio.timeout(60):
            offset, epoch = await self.leader.asked.get()
        return offset, epoch, self.end_offset


@asynccontextmanager
async def fetching(throttled: str = "") -> AsyncIterator[Seat]:
    with ThreadPoolExecutor(1) as worker:
        seat = Seat(worker, throttled)
        task = asyncio.ensure_future(seat.fetcher.run())
        try:
            yield seat
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_what_is_far_behind_is_asked_for_before_the_last_answer_is_appended() -> None:
    async with fetching() as seat:
        assert await seat.asked() == (0, -1, 0)
        seat.leader.send(make_batch(b"a"), make_batch(b"b"), high_watermark=10, end_offset=2)
        assert await seat.asked() == (2, 3, 0)
        seat.leader.send(make_batch(b"c"), high_watermark=10, end_offset=3)
        assert await seat.asked() == (3, 3, 2)
        seat.leader.send(make_batch(b"d"), high_watermark=4, end_offset=4)
        assert await seat.asked() == (4, 3, 4)
    assert seat.bench.partition.high_watermark == 4


async def test_what_somebody_may_wait_for_is_acknowledged_when_it_is_appended() -> None:
    """A fetch at an offset says that everything below it is here; at the high watermark that counts."""
    async with fetching() as seat:
        assert await seat.asked() == (0, -1, 0)
        for end_offset, high_watermark in ((2, 0), (4, 4), (6, 5)):
            seat.leader.send(make_batch(b"a"), make_batch(b"b"), high_watermark=high_watermark, end_offset=end_offset)
            assert await seat.asked() == (end_offset, 3, end_offset)


async def test_an_answer_for_another_end_of_the_log_does_not_count() -> None:
    """What is between would be missing: gaps are what compaction leaves, and nobody would notice."""
    async with fetching() as seat:
        await seat.asked()
        seat.leader.send(make_batch(b"a"), make_batch(b"b"), high_watermark=10, end_offset=2)
        await seat.asked()
        await until(lambda: seat.end_offset == 2)
        seat.bench.partition.truncate_to(1)
        seat.leader.send(make_batch(b"c"), high_watermark=10, end_offset=3)
        assert await seat.asked() == (1, 3, 1)


async def test_an_answer_that_was_asked_for_ahead_of_a_broken_batch_does_not_count() -> None:
    async with fetching() as seat:
        await seat.asked()
        broken = make_batch(b"b")
        broken[-1] ^= 1
        seat.leader.send(make_batch(b"a"), broken, high_watermark=10, end_offset=2)
        assert await seat.asked() == (2, 3, 0)
        seat.leader.send(make_batch(b"c"), high_watermark=10, end_offset=3)
        await until(lambda: seat.end_offset == 1)
        seat.fetcher.wake()
        assert await seat.asked() == (1, 3, 1)


async def test_an_answer_that_was_asked_for_in_an_older_epoch_does_not_count() -> None:
    async with fetching() as seat:
        await seat.asked()
        seat.leader.send(make_batch(b"a"), high_watermark=10, end_offset=1)
        assert await seat.asked() == (1, 3, 0)
        seat.bench.follow(epoch=4)
        seat.fetcher.add(seat.bench.partition)
        seat.leader.send(make_batch(b"b"), high_watermark=10, end_offset=2)
        assert await seat.asked() == (0, -1, 0)


async def test_a_leader_whose_answer_did_not_count_tells_everything_again() -> None:
    """In its session it took the high watermark for told, and the follower never heard of it (seed 103881)."""
    async with fetching() as seat:
        await seat.asked()
        seat.leader.send(make_batch(b"a"), high_watermark=0, end_offset=1)
        assert await seat.asked() == (1, 3, 1)
        assert seat.leader.session_epoch == 1
        seat.leader.send(high_watermark=1)
        seat.bench.follow(epoch=4)
        seat.fetcher.add(seat.bench.partition)
        assert await seat.asked() == (1, 3, 1)
        assert seat.leader.session_epoch == 0


async def test_what_is_held_back_is_not_asked_for_ahead() -> None:
    async with fetching(throttled="*") as seat:
        await seat.asked()
        seat.leader.send(make_batch(b"a"), high_watermark=10, end_offset=1)
        assert await seat.asked() == (1, 3, 1)


async def test_what_is_held_back_goes_on_when_the_rate_is_raised() -> None:
    """The follower waited for as long as the rate of before had wanted, which could be days."""
    async with fetching(throttled="*") as seat:
        await seat.asked()
        seat.bytes_per_second = 1
        seat.leader.send(make_batch(b"a"), high_watermark=10, end_offset=1)
        await until(lambda: seat.end_offset == 1)
        seat.bench.clock.time_ms += THROTTLE_REST_MS_MAX
        seat.fetcher.wake()
        await settled()
        assert seat.leader.asked.empty()
        seat.bytes_per_second = 50_000_000
        seat.fetcher.wake()
        assert await seat.asked() == (1, 3, 1)


def complaints(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [
        (record.levelno, record.getMessage().rpartition(": ")[2])
        for record in caplog.records
        if "cannot be fetched from broker 2" in record.getMessage()
    ]


async def refused(seat: Seat, code: ErrorCode, after_ms: int) -> None:
    """Let time pass, and have the leader refuse the next fetch."""
    await seat.asked()
    seat.bench.clock.time_ms += after_ms
    count = seat.leader.answers.qsize()
    seat.leader.refuse(code)
    await until(lambda: seat.leader.answers.qsize() == count)
    await settled()
    seat.fetcher.wake()


async def test_an_error_that_passes_is_no_warning_until_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    """Creating a topic wrote hundreds of warnings, because followers learn of it before its leaders do."""
    caplog.set_level(logging.DEBUG, "tailrace.runtime")
    async with fetching() as seat:
        await refused(seat, ErrorCode.UNKNOWN_TOPIC_ID, 0)
        await refused(seat, ErrorCode.NOT_LEADER_OR_FOLLOWER, 9_000)
        assert {level for level, _ in complaints(caplog)} == {logging.DEBUG}
        caplog.clear()
        await refused(seat, ErrorCode.NOT_LEADER_OR_FOLLOWER, 1_000)
        await refused(seat, ErrorCode.NOT_LEADER_OR_FOLLOWER, 60_000)
        assert complaints(caplog) == [(logging.WARNING, "NOT_LEADER_OR_FOLLOWER")]
        caplog.clear()
        await seat.asked()
        seat.leader.send(make_batch(b"a"), high_watermark=0, end_offset=1)
        await refused(seat, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
        assert complaints(caplog) == [(logging.DEBUG, "NOT_LEADER_OR_FOLLOWER")]


async def test_an_error_that_does_not_pass_by_itself_is_a_warning_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async with fetching() as seat:
        await refused(seat, ErrorCode.KAFKA_STORAGE_ERROR, 0)
        assert complaints(caplog) == [(logging.WARNING, "KAFKA_STORAGE_ERROR")]


class LeaderWithoutAnswers(QuietLeader):
    """A leader that never answers, on a connection that takes its time to close."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closing = asyncio.Event()

    async def request(self, request: FetchRequest, reply_type: type[FetchResponse], **_: object) -> FetchResponse:
        self.requests.put_nowait(request)
        await self.is_closing.wait()
        raise BrokerUnavailable("the connection was closed")

    async def close(self) -> None:
        self.is_closing.set()
        await asyncio.Event().wait()


async def test_a_fetcher_that_is_cancelled_while_it_hangs_up_leaves_no_failed_request_behind() -> None:
    """At SIGTERM asyncio reported "Task exception was never retrieved" with BrokerUnavailable.

    The fetcher had closed the connection to ask for more partitions, and was cancelled before it looked at the request
    that this had failed.
    """
    first, second, leader, reports = Bench(), Bench(), LeaderWithoutAnswers(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context["message"]))
    first.follow(epoch=0)
    second.follow(epoch=0)
    second.partition.index = 1
    throttle = ReplicationThrottle(1, first.clock, lambda: 1, lambda _: "")
    with ThreadPoolExecutor(1) as worker:
        fetcher = make_fetcher(leader, first.clock, worker, throttle)
        fetcher.add(first.partition)
        fetching = asyncio.ensure_future(fetcher.run())
        await leader.requests.get()
        fetcher.add(second.partition)
        await leader.is_closing.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for _ in range(2):  # once where the fetcher hangs up to ask for more, once where it does so at its end
            fetching.cancel()
            await asyncio.sleep(0)
        await asyncio.wait(others)
    del fetcher, fetching, others
    gc.collect()
    assert reports == []
