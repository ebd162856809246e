"""What a coordinator finds again after a restart, and what happens when its topic or its disk is gone."""

import asyncio
from dataclasses import replace

import pytest
from tests.logged import logged
from tests.settled import settled
from tests.unit.sample import BrokerInMemory
from tests.unit.server.handlers.member import coordinator, enter, fetch_old, join, pass_time
from tests.unit.server.handlers.peer import peer
from tests.unit.server.handlers.sensible import commit

from tailrace.machines.group.classic.coordinator import ClassicCoordinator
from tailrace.machines.group.decision import Decision
from tailrace.machines.group.record.format import decode_record
from tailrace.machines.group.record.offset import OffsetCommitKey, OffsetCommitValue
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
)
from tailrace.protocol.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from tailrace.protocol.messages.topic import DeleteTopicsRequest, DeleteTopicsRequestTopic
from tailrace.records.record import read_batches, read_records
from tailrace.runtime.coordinator.topic import OFFSETS_TOPIC, partition_for
from tailrace.storage.error import StorageError

# --- restarts and failures


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
async def test_a_restart_finds_groups_and_offsets_again(is_killed: bool) -> None:
    machine = BrokerInMemory()
    async with coordinator(machine) as client:
        topic_id = await client.create("t", 1)
        member_id = await enter(client)
        request = commit("g", "t", topic_id, 9)
        request.member_id, request.generation_id_or_member_epoch = member_id, 1
        await client.ask(request, 9)
        await client.ask(commit("simple", "t", topic_id, 9), 9)
        await client.ask(DeleteGroupsRequest(groups_names=["simple"]))
        if is_killed:
            await machine.kill(client.broker)
    async with coordinator(machine) as client:
        assert [group.group_id for group in (await client.ask(ListGroupsRequest())).groups] == ["g"]
        assert (await client.ask(fetch_old(), 7)).topics[0].partitions[0].committed_offset == 1
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
        assert (await client.ask(beat)).error_code == 0
        await pass_time(client, 10_000)
        assert (await client.ask(beat)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("piece_bytes", ["200", "5242880"], ids=["in pieces", "at once"])
async def test_what_was_written_last_counts_however_the_log_is_read(piece_bytes: str) -> None:
    machine = BrokerInMemory()
    async with coordinator(machine) as client:
        topic_id = await client.create("t", 1)
        member_id = await enter(client)
        for number in range(20):
            request = commit("g", "t", topic_id, 9)
            request.member_id, request.generation_id_or_member_epoch = member_id, 1
            request.topics[0].partitions[0].committed_offset = number
            await client.ask(request, 9)
            await client.ask(commit(f"gone-{number % 3}", "t", topic_id, 9), 9)
            await client.ask(DeleteGroupsRequest(groups_names=[f"gone-{number % 3}"]))
        await machine.kill(client.broker)
    async with coordinator(machine, offsets_load_buffer_size=piece_bytes) as client:
        assert [group.group_id for group in (await client.ask(ListGroupsRequest())).groups] == ["g"]
        assert (await client.ask(fetch_old(), 7)).topics[0].partitions[0].committed_offset == 19
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
        assert (await client.ask(beat)).error_code == 0


async def test_while_it_loads_a_coordinator_says_so() -> None:
    machine = BrokerInMemory()
    async with coordinator(machine) as client:
        topic_id = await client.create("t", 1)
        member_id = await enter(client)
        await client.ask(commit("simple", "t", topic_id, 9), 9)
    async with peer(machine) as client:
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await client.ask(join())).error_code == loading
        assert (await client.ask(fetch_old(), 7)).error_code == loading
        assert (await client.ask(ListGroupsRequest())).error_code == loading
        # Members are not sent away for that.
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
        assert (await client.ask(beat)).error_code == 0
        await client.broker.groups.loaded()
        assert (await client.ask(join())).error_code == ErrorCode.MEMBER_ID_REQUIRED


async def test_the_log_holds_what_kafka_would_write() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        await client.ask(commit("g", "t", topic_id, 9), 9)
        partition = client.broker.replicas.get(OFFSETS_TOPIC, partition_for("g", 3))
        data = partition.log.read(0, 1 << 20, partition.high_watermark, True)
        stored = [record for position, _ in read_batches(data) for record in read_records(data, position)]
        (record,) = [decode_record(one.key or b"", one.value) for one in stored]
        assert record.key == OffsetCommitKey(group="g", topic="t", partition=0)
        now_ms = client.machine.clock.time_ms
        assert record.value == OffsetCommitValue(offset=1, metadata="note", commit_timestamp=now_ms, topic_id=topic_id)


async def test_a_topic_of_groups_that_is_deleted_is_made_anew() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        await client.ask(commit("g", "t", topic_id, 9), 9)
        await enter(client, "h")
        second = await client.ask(join("h"))
        waiting = asyncio.get_running_loop().create_task(client.ask(join("h", second.member_id)))
        await settled()
        await client.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=OFFSETS_TOPIC)], timeout_ms=1000))
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        assert (await client.ask(fetch_old(), 7)).error_code == ErrorCode.NOT_COORDINATOR
        await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        assert (await client.ask(fetch_old(), 7)).topics[0].partitions[0].committed_offset == -1


async def test_a_coordinator_that_is_found_while_its_topic_is_created_can_be_used() -> None:
    """The second client was told of the coordinator before its logs were open, and its commit got NOT_COORDINATOR."""
    async with peer() as client:
        topic_id = await client.create("t", 1)
        first = asyncio.get_running_loop().create_task(client.ask(FindCoordinatorRequest(coordinator_keys=["simple"])))
        while OFFSETS_TOPIC not in client.broker.image.topics:
            await asyncio.sleep(0)
        await client.ask(FindCoordinatorRequest(coordinator_keys=["simple"]))
        answer = await client.ask(commit("simple", "t", topic_id, 9), 9)
        assert answer.topics[0].partitions[0].error_code == 0
        await first


async def test_a_disk_that_fails_is_told_as_a_lost_coordinator(caplog: pytest.LogCaptureFixture) -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        await enter(client)

        def fail(*_: object) -> int:
            raise StorageError("/data", OSError(28, "No space left on device"))

        partition = client.broker.replicas.get(OFFSETS_TOPIC, partition_for("simple", 3))
        partition.log.append = fail  # type: ignore[method-assign,assignment]
        answer = await client.ask(commit("simple", "t", topic_id, 9), 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert "cannot be written" in logged(caplog)
        del partition.log.append
        answer = await client.ask(commit("simple", "t", topic_id, 9), 9)
        assert answer.topics[0].partitions[0].error_code == 0


async def test_a_log_that_cannot_be_read_keeps_its_groups_away(caplog: pytest.LogCaptureFixture) -> None:
    machine = BrokerInMemory()
    async with coordinator(machine) as client:
        topic_id = await client.create("t", 1)
        await client.ask(commit("g", "t", topic_id, 9), 9)

    def fail(*_: object) -> None:
        raise StorageError("/data", OSError(5, "Input/output error"))

    async with peer(machine) as client:
        partition = client.broker.replicas.get(OFFSETS_TOPIC, partition_for("g", 3))
        partition.log.locate = fail  # type: ignore[method-assign,assignment]
        await client.broker.groups.loaded()
        assert (await client.ask(fetch_old(), 7)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "its coordinator goes offline" in logged(caplog)


async def test_a_bug_in_a_timer_costs_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with coordinator() as client:
        await enter(client, "g")
        await enter(client, "h")
        decide = ClassicCoordinator.on_timer

        def stumble(self: ClassicCoordinator, now_ms: int, key: tuple[str, ...]) -> Decision:
            if key[1] == "g":
                raise ZeroDivisionError
            return decide(self, now_ms, key)

        monkeypatch.setattr(ClassicCoordinator, "on_timer", stumble)
        await pass_time(client, 10_000)
        described = (await client.ask(DescribeGroupsRequest(groups=["g", "h"]))).groups
        assert [group.group_state for group in described] == ["Stable", "Empty"]
        assert "ZeroDivisionError" in logged(caplog)


async def test_a_reply_waits_for_the_flush_that_the_topic_asks_for() -> None:
    async with coordinator() as client:
        topic_id = await client.create("t", 1)
        partition = client.broker.replicas.get(OFFSETS_TOPIC, partition_for("g", 3))
        partition.log.reconfigure(replace(partition.log.config, flush_messages=1))
        assert partition.log.recovery_point == 0
        answer = await client.ask(commit("g", "t", topic_id, 9), 9)
        assert answer.topics[0].partitions[0].error_code == 0
        assert partition.log.recovery_point == partition.high_watermark == 1
