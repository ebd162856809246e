"""Transactions on one broker: what comes too late, what a restart finds, and what administrators see.

What producers are told when they are wrong is asked of Kafka, too, in `tests/clients/ask/transaction.py`.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.sample import BrokerInMemory, make_batch
from tests.unit.server.handlers.peer import Peer, peer, produce_request
from tests.unit.server.judge import deny_here, judge_here
from tests.unit.server.transactor import STATE, PeerTransactor, read_committed

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from tailrace.protocol.messages.producer import (
    DescribeProducersRequest,
    DescribeProducersRequestTopic,
    InitProducerIdRequest,
)
from tailrace.protocol.messages.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from tailrace.protocol.messages.transaction_admin import ListTransactionsRequest
from tailrace.runtime.transaction.verification import Codes, Question
from tailrace.server.context import Operation
from tailrace.server.handlers import transaction

TIMEOUT_MS = 60_000
both_versions = pytest.mark.parametrize("version", [1, 2])
both_ends = pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])


@asynccontextmanager
async def desk(machine: BrokerInMemory | None = None, **settings: str) -> AsyncIterator[Peer]:
    """A broker that coordinates transactions, and has the topic `t`."""
    async with peer(machine, intercept=None, transaction_state_log_num_partitions="3", **settings) as client:
        await client.broker.transactions.make_topic()
        await client.broker.transactions.loaded()
        if "t" not in client.broker.image.topics:
            await client.create("t", 2)
        yield client


async def begun(client: Peer, version: int = 1, *partitions: int) -> PeerTransactor:
    """A producer that has written a record to partition 0, or to each of these."""
    producer = PeerTransactor(client, version=version, timeout_ms=TIMEOUT_MS)
    assert await producer.init() is ErrorCode.NONE
    if version == 1:
        await producer.add(*partitions or (0,))
    for partition in partitions or (0,):
        assert await producer.write(partition, b"%d" % partition) is ErrorCode.NONE
    return producer


def written(client: Peer) -> int:
    """How much there is of transactions in the log."""
    return sum(client.broker.replicas.get(STATE, index).log.log_end_offset for index in range(3))


def pass_time(client: Peer, wait_ms: int) -> None:
    client.machine.clock.time_ms += wait_ms
    client.broker.transactions.fire_due()
    client.broker.transactions.fire_due()  # what the look found is due at once


def hold_markers(client: Peer) -> None:
    """No partition takes a marker any more."""
    writer = client.broker.marker_writer
    writer.write = lambda topic, index, marker, written: written(ErrorCode.NOT_ENOUGH_REPLICAS)  # type: ignore[method-assign]


# --- the way of a transaction


@both_versions
@both_ends
async def test_a_transaction_is_over_when_its_end_is_answered(version: int, is_commit: bool) -> None:
    async with desk() as client:
        producer = await begun(client, version, 0, 1)
        assert await read_committed(producer, 0) == []
        assert await producer.end(is_commit=is_commit) is ErrorCode.NONE
        assert await producer.state() == ("CompleteCommit" if is_commit else "CompleteAbort")
        for partition in range(2):
            assert await read_committed(producer, partition) == ([b"%d" % partition] if is_commit else [])


@both_ends
async def test_an_end_whose_client_has_left_does_not_end_the_next_transaction(is_commit: bool) -> None:
    """The network held it until the client had repeated it. A producer of the first generation keeps its epoch."""
    async with desk() as client:
        producer = await begun(client)
        assert await producer.end(is_commit=is_commit) is ErrorCode.NONE
        await producer.add(0)
        assert await producer.write(0, b"next") is ErrorCode.NONE
        client.line.is_abandoned = True
        assert await producer.end(is_commit=is_commit) is ErrorCode.REQUEST_TIMED_OUT
        client.line.is_abandoned = False
        assert await producer.state() == "Ongoing"


async def test_an_end_with_an_epoch_of_its_own_may_be_late() -> None:
    async with desk() as client:
        producer = await begun(client, 2)
        client.line.is_abandoned = True
        assert await producer.end(is_commit=True) is ErrorCode.NONE


async def test_whoever_asks_first_has_the_topic_made() -> None:
    async with peer(transaction_state_log_num_partitions="3") as client:
        producer = PeerTransactor(client)
        assert await producer.init() is ErrorCode.NOT_COORDINATOR
        found = await client.ask(FindCoordinatorRequest(coordinator_keys=["x"], key_type=1), 5)
        assert [(each.error_code, each.node_id) for each in found.coordinators] == [(0, 1)]
        assert client.broker.topic_config(STATE).cleanup_policy == ("compact",)
        assert await producer.init() is ErrorCode.NONE


async def test_one_request_holds_the_records_of_one_producer() -> None:
    async with desk() as client:
        producer = await begun(client)
        batches = {
            ("t", index): make_batch(producer=(producer.producer_id + index, 0, 1), is_transactional=True)
            for index in range(2)
        }
        request = produce_request(batches)
        request.transactional_id = producer.name
        reply = await client.ask(request, 11)
        codes = {partition.error_code for topic in reply.responses for partition in topic.partition_responses}
        assert codes == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}


async def test_what_is_refused_is_refused_for_every_batch_of_a_partition() -> None:
    """A request that named a partition twice had one of its batches written, whatever the coordinator said; and what
    the coordinator does not know of, nobody ends.
    """
    async with desk() as client:
        producer = await begun(client)
        data = [
            ProduceRequestPartition(
                index=1,
                records=make_batch(producer=(producer.producer_id, producer.epoch, sequence), is_transactional=True),
            )
            for sequence in range(2)
        ]
        topics = [ProduceRequestTopic(name="t", partition_data=data)]
        request = ProduceRequest(transactional_id=producer.name, acks=-1, timeout_ms=10_000, topic_data=topics)
        reply = await client.ask(request, 11)
        codes = [partition.error_code for topic in reply.responses for partition in topic.partition_responses]
        assert codes == [ErrorCode.TRANSACTION_ABORTABLE] * 2
        assert client.broker.replicas.get("t", 1).log.log_end_offset == 0


async def test_brokers_verify_for_several_producers_at_once() -> None:
    async with desk() as client:
        producer = await begun(client)
        topics = [AddPartitionsToTxnRequestTopic(name="t", partitions=[0, 1])]
        asked = [
            AddPartitionsToTxnRequestTransaction(
                transactional_id=name,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                verify_only=True,
                topics=topics,
            )
            for name in (producer.name, "nobody")
        ]
        before = written(client)
        reply = await client.ask(AddPartitionsToTxnRequest(transactions=asked), 4)
        codes = [
            [each.partition_error_code for topic in result.topic_results for each in topic.results_by_partition]
            for result in reply.results_by_transaction
        ]
        assert codes == [[0, ErrorCode.TRANSACTION_ABORTABLE], [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2]
        assert written(client) == before


async def test_so_many_producers_of_a_broker_are_verified_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of 2.8 MB named 100,000 transactions, and the broker used 600 MB for as many tasks."""
    monkeypatch.setattr(transaction, "PEER_BATCH_COUNT_MAX", 2)
    task_counts: list[int] = []

    async with desk() as client:

        async def verify(*_: object) -> Codes:
            task_counts.append(len(asyncio.all_tasks()))
            return {}

        monkeypatch.setattr(client.broker.transactions, "verify", verify)
        topics = [AddPartitionsToTxnRequestTopic(name="t", partitions=[0])]
        names = [f"x{number}" for number in range(5)]
        asked = [
            AddPartitionsToTxnRequestTransaction(transactional_id=name, verify_only=True, topics=topics)
            for name in names
        ]
        before = len(asyncio.all_tasks())
        reply = await client.ask(AddPartitionsToTxnRequest(transactions=asked), 4)
        assert [result.transactional_id for result in reply.results_by_transaction] == names
        assert len(task_counts) == 5
        assert max(task_counts) == before + 2


async def test_without_verification_old_producers_write_where_they_like() -> None:
    async with desk(transaction_partition_verification_enable="false") as client:
        producer = await begun(client)
        assert await producer.write(1, b"astray") is ErrorCode.NONE
        await producer.end()
        assert await read_committed(producer, 0) == [b"0"]
        assert await read_committed(producer, 1) == []  # it holds back readers until an administrator comes


async def test_the_first_batch_waits_for_the_end_of_the_transaction_before() -> None:
    """The end is answered before its markers are written, and the producer goes on at once (KIP-890)."""
    async with desk() as client:
        producer = await begun(client, 2)
        write = client.broker.marker_writer.write
        hold_markers(client)
        assert await producer.end() is ErrorCode.NONE
        assert await producer.state() == "PrepareCommit"
        ask, asked = client.broker.verification._ask, asyncio.Queue[None]()

        def note_and_ask(question: Question) -> Coroutine[Any, Any, Codes]:
            asked.put_nowait(None)
            return ask(question)

        client.broker.verification._ask = note_and_ask  # type: ignore[method-assign]
        following = asyncio.create_task(producer.write(0, b"next"))
        async with asyncio.timeout(60):
            for _ in range(3):  # it asks again and again whether it may begin
                await asked.get()
        assert not following.done()
        client.broker.marker_writer.write = write  # type: ignore[method-assign]
        async with asyncio.timeout(60):
            assert await following is ErrorCode.NONE
        assert await read_committed(producer, 0) == [b"0"]
        await producer.end()
        assert await read_committed(producer, 0) == [b"0", b"next"]


async def test_the_first_batch_does_not_wait_for_ever() -> None:
    async with desk(add_partitions_to_txn_retry_backoff_max_ms="0") as client:
        producer = await begun(client, 2)
        hold_markers(client)
        assert await producer.end() is ErrorCode.NONE
        assert await producer.write(0, b"next") is ErrorCode.CONCURRENT_TRANSACTIONS
        older = await begun_again(client)
        assert await older.write(0, b"next") is ErrorCode.NOT_ENOUGH_REPLICAS  # which old producers repeat


async def begun_again(client: Peer) -> PeerTransactor:
    """An old producer whose transaction is being ended, and that goes on to write."""
    producer = PeerTransactor(client, "y")
    await producer.init()
    await producer.add(0)
    assert await producer.end() is ErrorCode.NONE
    assert await producer.state() == "PrepareCommit"
    return producer


# --- time


@both_versions
async def test_a_commit_that_comes_after_the_time_out_is_refused(version: int) -> None:
    async with desk() as client:
        producer = await begun(client, version)
        pass_time(client, TIMEOUT_MS - 1)
        assert await producer.state() == "Ongoing"
        pass_time(client, 11_000)
        assert await producer.state() == "CompleteAbort"
        before = written(client)
        # Since KIP-890 it might be the repeated end of the transaction, if it only said the same.
        assert await producer.end() is (ErrorCode.PRODUCER_FENCED if version == 1 else ErrorCode.INVALID_TXN_STATE)
        assert await producer.write(0, b"late") is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await producer.write(1, b"late") is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await producer.state() == "CompleteAbort"
        assert (written(client), await read_committed(producer, 0)) == (before, [])
        assert await producer.init() is ErrorCode.NONE


async def test_a_transactional_id_that_nobody_uses_is_forgotten() -> None:
    async with desk(transactional_id_expiration_ms="1000") as client:
        producer = await begun(client)
        await producer.end()
        pass_time(client, 3_600_001)
        assert await producer.state() == "TRANSACTIONAL_ID_NOT_FOUND"
        assert await producer.end() is ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_what_is_prepared_for_somebody_else_does_not_time_out() -> None:
    async with desk(transaction_two_phase_commit_enable="true") as client:
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1, enable2_pc=True)
        reply = await client.ask(request, 6)
        producer = PeerTransactor(client, version=2)
        producer.producer_id, producer.epoch = reply.producer_id, reply.producer_epoch
        assert await producer.write(0, b"0") is ErrorCode.NONE
        pass_time(client, 10 * 24 * 3_600_000)
        assert await producer.state() == "Ongoing"
        kept = await client.ask(
            InitProducerIdRequest(
                transactional_id="x", transaction_timeout_ms=1, enable2_pc=True, keep_prepared_txn=True
            ),
            6,
        )
        assert (kept.error_code, kept.ongoing_txn_producer_id) == (0, producer.producer_id)
        producer.producer_id, producer.epoch = kept.producer_id, kept.producer_epoch
        assert await producer.end() is ErrorCode.NONE
        assert await read_committed(producer, 0) == [b"0"]


async def test_two_phase_commit_has_to_be_enabled_and_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000, enable2_pc=True)
    async with desk(transaction_two_phase_commit_enable="false") as client:
        assert (await client.ask(request, 6)).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    async with desk(transaction_two_phase_commit_enable="true") as client:
        judge_here(monkeypatch, lambda _, operation, *__, **___: operation is Operation.WRITE)
        assert (await client.ask(request, 6)).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


# --- restarts


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
@both_versions
async def test_a_restart_finds_each_state(version: int, is_killed: bool) -> None:
    machine = BrokerInMemory()
    async with desk(machine) as client:
        for name in ("empty", "open", "committing", "aborting", "committed"):
            producer = PeerTransactor(client, name, version=version)
            assert await producer.init() is ErrorCode.NONE
            if name == "empty":
                continue
            if version == 1:
                await producer.add(0)
            assert await producer.write(0, name.encode()) is ErrorCode.NONE
            if name == "committed":
                assert await producer.end() is ErrorCode.NONE
        hold_markers(client)
        for name, is_commit in (("committing", True), ("aborting", False)):
            found = client.broker.transactions.machine(name).transactions[name]
            producer = PeerTransactor(client, name, version=version)
            producer.producer_id, producer.epoch = found.producer_id, found.producer_epoch
            assert await producer.end(is_commit=is_commit) is ErrorCode.NONE
            assert await producer.state() == ("PrepareCommit" if is_commit else "PrepareAbort")
        if is_killed:
            await machine.kill(client.broker)
    async with desk(machine) as client:
        states = {
            name: await PeerTransactor(client, name).state()
            for name in ("empty", "open", "committing", "aborting", "committed")
        }
        assert states == {
            "empty": "Empty",
            "open": "Ongoing",
            "committing": "CompleteCommit",
            "aborting": "CompleteAbort",
            "committed": "CompleteCommit",
        }
        latter = PeerTransactor(client, "open", version=version)
        assert await latter.init() is ErrorCode.CONCURRENT_TRANSACTIONS  # the old one is aborted first
        assert await latter.init() is ErrorCode.NONE
        assert await read_committed(latter, 0) == [b"committing", b"committed"]


async def test_a_coordinator_that_loads_says_so() -> None:
    machine = BrokerInMemory()
    async with desk(machine) as client:
        await begun(client)
    async with peer(machine, transaction_state_log_num_partitions="3") as client:
        assert await PeerTransactor(client).init() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await client.broker.transactions.loaded()
        assert await PeerTransactor(client).state() == "Ongoing"


async def test_what_cannot_be_written_is_not_decided() -> None:
    async with desk() as client:
        producer = await begun(client)
        for index in range(3):
            state = client.broker.replicas.get(STATE, index)
            state.role = replace(state.role, min_isr=2)
        assert await producer.end() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await producer.add(1) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        assert await producer.state() == "Ongoing"
        for index in range(3):
            state = client.broker.replicas.get(STATE, index)
            state.role = replace(state.role, min_isr=1)
        assert await producer.end() is ErrorCode.NONE
        assert await producer.state() == "CompleteCommit"


async def test_no_producer_id_at_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk() as client:

        async def reserve() -> None:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        monkeypatch.setattr(client.broker.producer_ids, "_reserve", reserve)
        assert await PeerTransactor(client).init() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        monkeypatch.undo()
        assert await PeerTransactor(client).init() is ErrorCode.NONE


# --- seen from outside


async def test_a_hanging_transaction_is_found_by_its_producer() -> None:
    async with desk() as client:
        producer = await begun(client)
        request = DescribeProducersRequest(topics=[DescribeProducersRequestTopic(name="t", partition_indexes=[0, 1])])
        (topic,) = (await client.ask(request)).topics
        found = [
            [(each.producer_id, each.current_txn_start_offset) for each in one.active_producers]
            for one in topic.partitions
        ]
        assert found == [[(producer.producer_id, 0)], []]


async def test_only_what_may_be_seen_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk() as client:
        await begun(client)
        assert len((await client.ask(ListTransactionsRequest())).transaction_states) == 1
        deny_here(monkeypatch)
        assert (await client.ask(ListTransactionsRequest())).transaction_states == []
