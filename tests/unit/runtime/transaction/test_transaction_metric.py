"""What a broker tells of transactions: counts by what became of them, what is open, and what is late."""

import pytest
from tests.unit.runtime.group.test_group_metric import Found, read
from tests.unit.sample import BrokerInMemory
from tests.unit.server.handlers.peer import Peer
from tests.unit.server.handlers.test_transaction_handlers import (
    TIMEOUT_MS,
    begun,
    both_versions,
    desk,
    hold_markers,
    pass_time,
)
from tests.unit.server.transactor import STATE, PeerTransactor

from tailrace.base.limits import TRANSACTION_END_LATE_MS, TRANSACTION_LATE_MS
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.runtime.partition import Partition

MARKER = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
REPLICA = "kafka_server_replicamanager"


def counts(client: Peer) -> dict[str, float]:
    """What has happened so far, without what has not."""
    names = ("begun_count", "committed_count", "fenced_request_count")
    found = {name.removesuffix("_count"): value(client, f"tailrace_transaction_{name}") for name in names}
    aborted = read(client.broker, "tailrace_transaction_aborted_count")
    found |= {f"aborted, {cause}": count for (cause,), count in aborted.items()}
    return {name: count for name, count in found.items() if count}


def value(client: Peer, name: str) -> float:
    """The value of a metric that has no labels."""
    return read(client.broker, name)[()]


def states(client: Peer) -> Found:
    """How many transactional ids are in each state in which there is one."""
    found = read(client.broker, "tailrace_transactional_id_count")
    assert len(found) == 6
    return {state: count for state, count in found.items() if count}


@both_versions
async def test_each_transaction_is_counted_by_what_became_of_it(version: int) -> None:
    async with desk() as client:
        assert counts(client) == {}
        aborted = read(client.broker, "tailrace_transaction_aborted_count")
        assert aborted == {("client",): 0, ("timeout",): 0, ("fenced",): 0}
        producer = await begun(client, version, 0, 1)
        assert counts(client) == {"begun": 1}, "a second partition begins nothing"
        assert await producer.end() is ErrorCode.NONE
        assert counts(client) == {"begun": 1, "committed": 1}
        producer = await begun(client, version)
        assert await producer.end(is_commit=False) is ErrorCode.NONE
        assert counts(client) == {"begun": 2, "committed": 1, "aborted, client": 1}
        await begun(client, version)
        pass_time(client, TIMEOUT_MS + 11_000)
        former = await begun(client, version)
        assert await PeerTransactor(client).init() is ErrorCode.CONCURRENT_TRANSACTIONS
        everything = {"begun": 4, "committed": 1, "aborted, client": 1, "aborted, timeout": 1, "aborted, fenced": 1}
        assert counts(client) == everything
        later = PeerTransactor(client)
        assert await later.init() is ErrorCode.NONE
        assert await former.end() is ErrorCode.PRODUCER_FENCED
        assert counts(client) == {**everything, "fenced_request": 1}


async def test_what_ends_nothing_is_not_counted() -> None:
    async with desk() as client:
        producer = PeerTransactor(client, version=2)
        await producer.init()
        assert await producer.end(is_commit=False) is ErrorCode.NONE
        assert await producer.state() == "CompleteAbort"
        assert await producer.end() is ErrorCode.INVALID_TXN_STATE
        assert counts(client) == {}
        older = await begun(client)
        assert await older.end() is ErrorCode.NONE
        assert await older.end() is ErrorCode.NONE, "the same again"
        assert counts(client) == {"begun": 1, "committed": 1}


async def test_whoever_is_fenced_is_counted_at_every_request_to_the_coordinator() -> None:
    async with desk() as client:
        former = PeerTransactor(client)
        await former.init()
        await PeerTransactor(client).init()
        assert await former.add(0) == {ErrorCode.PRODUCER_FENCED}
        assert await former.write(0, b"late") is ErrorCode.INVALID_PRODUCER_EPOCH  # its partition is verified
        assert counts(client) == {"fenced_request": 2}


async def test_what_cannot_be_written_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk() as client:
        producer = await begun(client)
        append = Partition.append

        def refuse(partition: Partition, *arguments: object) -> object:
            if partition.topic == STATE:
                raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
            return append(partition, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Partition, "append", refuse)
        assert await producer.end() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert counts(client) == {"begun": 1}


async def test_transactional_ids_are_counted_by_state_and_open_ones_by_age() -> None:
    async with desk() as client:
        assert (states(client), value(client, "tailrace_transaction_open_age_max_ms")) == ({}, 0)
        await PeerTransactor(client, "empty").init()
        await begun(client)
        pass_time(client, 700)
        later = PeerTransactor(client, "later", version=2)
        await later.init()
        await later.write(1, b"1")
        assert states(client) == {("Empty",): 1, ("Ongoing",): 2}
        assert value(client, "tailrace_transaction_open_count") == 2
        assert value(client, "tailrace_transaction_open_age_max_ms") == 700
        await later.end()
        assert states(client) == {("Empty",): 1, ("Ongoing",): 1, ("CompleteCommit",): 1}
        assert value(client, "tailrace_transaction_open_count") == 1


async def test_ends_without_all_of_their_markers_are_late_after_a_while() -> None:
    late = "tailrace_transaction_late_end_count"
    async with desk() as client:
        producer = await begun(client)
        hold_markers(client)
        assert await producer.end() is ErrorCode.NONE
        assert (states(client), value(client, late)) == ({("PrepareCommit",): 1}, 0)
        pass_time(client, TRANSACTION_END_LATE_MS + 1)
        assert value(client, late) == 1
        assert value(client, f"{MARKER}_unknowndestinationqueuesize") == 0, "there is a leader, which does not take it"
        assert value(client, f"{MARKER}_logappendretryqueuesize") == 0


async def test_an_end_that_has_its_markers_and_cannot_be_completed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk() as client:
        producer = await begun(client)
        append_marker = Partition.append_marker
        refusing = False
        append = Partition.append

        def mark(partition: Partition, *arguments: object) -> object:
            nonlocal refusing
            refusing = True
            return append_marker(partition, *arguments)  # type: ignore[arg-type]

        def refuse(partition: Partition, *arguments: object) -> object:
            if refusing and partition.topic == STATE:
                raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
            return append(partition, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Partition, "append_marker", mark)
        monkeypatch.setattr(Partition, "append", refuse)
        await producer.end()
        assert await producer.state() == "PrepareCommit"
        assert value(client, f"{MARKER}_logappendretryqueuesize") == 1
        monkeypatch.undo()
        pass_time(client, 2_000)
        assert value(client, f"{MARKER}_logappendretryqueuesize") == 0
        assert await producer.state() == "CompleteCommit"


async def test_loads_and_forgotten_ids_are_counted_and_loading_counts_nothing_again() -> None:
    machine = BrokerInMemory()
    async with desk(machine) as client:
        producer = await begun(client)
        await producer.end()
    async with desk(machine, transactional_id_expiration_ms="1000") as client:
        assert counts(client) == {}
        assert states(client) == {("CompleteCommit",): 1}
        loads = read(client.broker, "kafka_server_transaction_coordinator_metrics_partition_load_time_ms")
        assert loads["+Inf",] == 3, "one for each partition of __transaction_state"
        assert value(client, "tailrace_transactional_id_expired_count") == 0
        pass_time(client, 3_600_001)
        assert value(client, "tailrace_transactional_id_expired_count") == 1
        assert states(client) == {}


async def test_a_log_in_which_a_transaction_hangs_is_told() -> None:
    """One that its coordinator knows nothing of, as an old producer that nobody verifies can leave it."""
    late = f"{REPLICA}_partitionswithlatetransactionscount"
    async with desk(transaction_partition_verification_enable="false") as client:
        producer = await begun(client)
        assert await producer.write(1, b"astray") is ErrorCode.NONE
        await producer.end()
        assert value(client, f"{REPLICA}_produceridcount") == 2, "the same one in two partitions"
        longest_ms = client.broker.config.transaction_max_timeout_ms + TRANSACTION_LATE_MS
        log = client.broker.replicas.get("t", 1).log
        (entry,) = log.producers.entries.values()
        client.machine.clock.time_ms = entry.last_timestamp + longest_ms
        assert value(client, late) == 0
        client.machine.clock.time_ms += 1
        assert value(client, late) == 1
