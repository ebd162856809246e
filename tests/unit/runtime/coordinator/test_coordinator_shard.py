"""The shell around one coordinator's machine: load, decide, append, replay, answer; and how it goes offline."""

import asyncio
import logging
from typing import Any

import pytest
from tests.logged import logged, own_records
from tests.settled import settled
from tests.unit.runtime.coordinator.shard_bench import Add, ShardBench

from tailrace.base.invariant import InvariantError, invariant
from tailrace.machines.decision import Decision, Reply, Timer
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdResponse
from tailrace.runtime.append import Appended
from tailrace.runtime.coordinator.shard import Answer, CoordinatorShard
from tailrace.runtime.coordinator.timer import ShardTimers


async def loaded(**options: Any) -> ShardBench:
    bench = ShardBench(**options)
    await bench.shard.load()
    return bench


def count_of(answer: Answer) -> int:
    reply = answer.result()
    assert isinstance(reply, InitProducerIdResponse)
    return reply.producer_id


def code_of(answer: Answer) -> ErrorCode:
    error = answer.exception()
    assert isinstance(error, ApiError)
    return error.code


def refusal(shard: CoordinatorShard[Any, Any]) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        shard.check_loaded()
    return caught.value.code


# --- load and unload


async def test_a_shard_takes_no_requests_before_it_is_loaded() -> None:
    bench = ShardBench()
    assert refusal(bench.shard) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await bench.shard.load()
    bench.shard.check_loaded()
    assert bench.machine.loaded_ms == bench.clock.now_ms()
    assert bench.counters.loads == [("t-0", 0)]


async def test_a_shard_replays_what_another_has_written() -> None:
    bench = await loaded()
    for amount in (1, 2, 3):
        bench.add("a", amount)
    bench.add("b", 5)
    bench.shard = bench.new_shard()
    await bench.shard.load()
    assert bench.machine.counts == {"a": 6, "b": 5}
    assert bench.counters.loads[-1] == ("t-0", 2)  # of each key the newest


async def test_a_load_waits_until_the_high_watermark_has_passed_the_election() -> None:
    bench = await loaded(isr=(1, 2))
    bench.add("a", 1)
    bench.lead(1, (1, 2))
    bench.shard = bench.new_shard()
    loading = asyncio.create_task(bench.shard.load())
    await settled()
    assert not loading.done()
    bench.fetch(2, 1)
    await loading
    assert bench.machine.counts == {"a": 1}


async def test_a_load_that_is_overtaken_by_another_leader_ends_quietly() -> None:
    bench = await loaded(isr=(1, 2))
    bench.add("a", 1)
    bench.lead(1, (1, 2))
    shard = bench.new_shard()
    loading = asyncio.create_task(shard.load())
    await settled()
    bench.follow(2)
    await loading
    assert shard.is_gone
    assert (shard.is_loaded, shard.is_offline) == (False, False)


async def test_a_load_ends_quietly_when_the_broker_leads_again_in_the_same_epoch() -> None:
    """A session that ends and begins again makes a leader a follower and a leader again in one epoch.

    Another shard takes over then. The first one took itself for the current one, and went offline because its election
    was not over, or was loaded beside the other.
    """
    bench = await loaded(isr=(1, 2))
    bench.add("a", 1)
    bench.lead(1, (1, 2))
    shard = bench.new_shard()
    loading = asyncio.create_task(shard.load())
    await settled()
    bench.follow(1)
    shard.discard()
    bench.lead(1, (1, 2))
    await loading
    assert shard.is_gone
    assert (shard.is_loaded, shard.is_offline) == (False, False)


async def test_a_shard_that_is_unloaded_answers_the_requests_that_wait() -> None:
    bench = await loaded()

    def join(machine: Any, _now_ms: int, token: object) -> Decision[Add]:
        machine.waiting.append(token)
        return Decision()

    answer = bench.ask(join)
    assert not answer.done()
    bench.shard.unload()
    reply = answer.result()
    assert isinstance(reply, InitProducerIdResponse)
    assert reply.error_code == ErrorCode.NOT_COORDINATOR
    assert refusal(bench.shard) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# --- decisions


async def test_a_decision_is_appended_replayed_and_answered() -> None:
    bench = await loaded()
    assert [count_of(bench.add("a", amount)) for amount in (1, 2)] == [1, 3]
    assert bench.machine.counts == {"a": 3}
    assert bench.partition.log.log_end_offset == 2
    assert bench.counters.writes == [([Add("a", 1)], None), ([Add("a", 3)], None)]


async def test_the_answers_come_in_order_when_the_high_watermark_passes_them() -> None:
    bench = await loaded(isr=(1, 2))
    answered: list[int] = []
    for amount in (1, 2):
        bench.add("a", amount).add_done_callback(lambda answer: answered.append(count_of(answer)))
    await settled()
    assert bench.machine.counts == {"a": 3}  # the next decision rests on it already
    assert answered == []
    bench.fetch(2, 2)
    await settled()
    assert answered == [1, 3]


async def test_an_answer_without_records_waits_for_what_it_rests_on() -> None:
    bench = await loaded(isr=(1, 2))
    bench.add("a", 1)
    read = bench.ask(lambda machine, _, token: Decision().reply(token, InitProducerIdResponse(producer_id=7)))
    shown = asyncio.create_task(bench.shard.acknowledged())
    await settled()
    assert not read.done()
    assert not shown.done()
    bench.fetch(2, 1)
    await shown
    assert count_of(read) == 7


@pytest.mark.parametrize("way", ["answer", "acknowledged"])
async def test_a_shard_whose_lease_is_over_after_the_wait_tells_nothing(way: str) -> None:
    """What a coordinator showed after it had waited for replicas was once not held against its lease again."""
    bench = await loaded(isr=(1, 2))
    answer = bench.add("a", 1)
    shown = asyncio.create_task(bench.shard.acknowledged())
    await settled()
    bench.lease_ms = bench.clock.time_ms
    bench.fetch(2, 1)
    await settled()
    if way == "answer":
        assert code_of(answer) is ErrorCode.NOT_COORDINATOR
    with pytest.raises(ApiError) as caught:
        await shown
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
    answer.exception()


async def test_a_shard_without_its_lease_takes_no_requests() -> None:
    bench = await loaded()
    bench.lease_ms = bench.clock.time_ms
    assert refusal(bench.shard) is ErrorCode.NOT_COORDINATOR


async def test_requests_hear_that_another_leader_was_elected() -> None:
    bench = await loaded(isr=(1, 2))
    answer = bench.add("a", 1)
    bench.follow(1)
    await settled()
    assert code_of(answer) is ErrorCode.NOT_COORDINATOR
    assert bench.shard.is_gone


async def test_a_decision_that_cannot_be_appended_is_not_replayed() -> None:
    bench = await loaded(isr=(1, 2), min_insync_replicas="2")
    bench.lead(0, (1,))
    assert code_of(bench.add("a", 1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.machine.counts == {}


async def test_a_decision_says_what_happens_if_it_cannot_be_appended() -> None:
    bench = await loaded(isr=(1, 2), min_insync_replicas="2")
    bench.lead(0, (1,))

    def decide(_machine: Any, _now_ms: int, token: object) -> Decision[Add]:
        def failed(code: ErrorCode) -> Decision[Add]:
            return Decision().reply(token, InitProducerIdResponse(error_code=code))

        return Decision([Add("a", 1)], failed=failed)

    reply = (bench.ask(decide)).result()
    assert isinstance(reply, InitProducerIdResponse)
    assert reply.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not bench.shard.is_offline


async def test_timers_are_set_and_what_they_decide_is_written() -> None:
    bench = await loaded()
    bench.ask(lambda *_: Decision(timers=[Timer(("session", "a"), 99)]))
    assert bench.timers == {("session", "a"): 99}
    bench.shard.on_timer(("session", "a"))
    assert bench.machine.counts == {"timer": 1}
    assert bench.counters.writes == [([Add("timer", 1)], ("session", "a"))]


# --- bugs


def broken(*_: object) -> Decision[Add]:
    invariant(False, "a member is in two groups")
    return Decision()


async def assert_offline(bench: ShardBench, caplog: pytest.LogCaptureFixture, reason: str) -> None:
    assert bench.shard.is_offline
    assert refusal(bench.shard) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(ApiError) as caught:
        bench.add("a", 1)
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [record.levelno for record in own_records(caplog)] == [logging.CRITICAL]
    assert "t-0: its coordinator goes offline" in logged(caplog)
    assert reason in logged(caplog)


async def test_an_invariant_that_fails_in_a_decision_takes_the_shard_offline(caplog: pytest.LogCaptureFixture) -> None:
    bench = await loaded(isr=(1, 2))
    pending = bench.add("a", 1)
    answer = bench.ask(broken)
    assert code_of(answer) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await assert_offline(bench, caplog, "a member is in two groups")
    # What was decided before stands in the log, and is told when it is replicated.
    bench.fetch(2, 1)
    await settled()
    assert count_of(pending) == 1


async def test_a_record_that_was_written_and_cannot_be_replayed_takes_the_shard_offline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever the bug: from then on the machine's memory is not what a load would make of the log."""
    bench = await loaded()
    bench.machine.failure = KeyError("a")
    assert code_of(bench.add("a", 1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.partition.log.log_end_offset == 1
    await assert_offline(bench, caplog, "cannot be replayed")


async def test_an_invariant_that_fails_in_a_timer_takes_the_shard_offline(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = await loaded()
    timers = ShardTimers(bench.clock)
    timers.set(bench.shard, Timer(("first",), bench.clock.now_ms()))
    timers.set(bench.shard, Timer(("second",), bench.clock.now_ms()))
    fired: list[tuple[str, ...]] = []

    def on_timer(_now_ms: int, key: tuple[str, ...]) -> Decision[Add]:
        fired.append(key)
        raise InvariantError("a timer without a member")

    monkeypatch.setattr(bench.machine, "on_timer", on_timer)
    bench.clock.time_ms += 1
    timers.fire_due()
    timers.stop()
    assert fired == [("first",)]
    await assert_offline(bench, caplog, "a timer without a member")


async def test_a_log_that_cannot_be_replayed_is_not_loaded_until_another_election(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = await loaded()
    bench.add("a", 1)
    bench.shard = bench.new_shard()
    bench.machine.failure = ValueError("no such state")
    await bench.shard.load()
    await assert_offline(bench, caplog, "no such state")
    bench.lead(1, (1,))
    assert bench.shard.is_gone  # so that the broker makes another one


async def test_a_shard_is_loaded_once(caplog: pytest.LogCaptureFixture) -> None:
    bench = await loaded()
    await bench.shard.load()
    await assert_offline(bench, caplog, "t-0 is loaded twice")


async def test_members_that_wait_are_sent_away_by_a_shard_that_goes_offline(caplog: pytest.LogCaptureFixture) -> None:
    bench = await loaded()
    joining: Answer = asyncio.get_running_loop().create_future()
    bench.machine.waiting.append(joining)
    bench.ask(broken).exception()
    reply = joining.result()
    assert isinstance(reply, InitProducerIdResponse)
    assert reply.error_code == ErrorCode.NOT_COORDINATOR
    await assert_offline(bench, caplog, "a member is in two groups")


async def test_requests_that_only_the_decision_remembers_are_refused_by_a_shard_that_goes_offline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A machine forgets a request when it decides to answer it."""
    bench = await loaded()
    other: Answer = asyncio.get_running_loop().create_future()
    bench.machine.failure = KeyError("a")
    own = bench.ask(
        lambda _machine, _now_ms, token: Decision(
            [Add("a", 1)], [Reply(other, InitProducerIdResponse()), Reply(token, InitProducerIdResponse())]
        )
    )
    assert [code_of(each) for each in (own, other)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    await assert_offline(bench, caplog, "cannot be replayed")


async def test_requests_that_only_the_decision_remembers_are_refused_after_a_bug(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = await loaded()
    other: Answer = asyncio.get_running_loop().create_future()

    def fail(*_arguments: Any) -> None:
        raise KeyError("a")

    monkeypatch.setattr(bench.shard, "carried_out", fail)
    with pytest.raises(KeyError):
        bench.ask(lambda _machine, _now_ms, _token: Decision(replies=[Reply(other, InitProducerIdResponse())]))
    assert code_of(other) is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_an_invariant_that_fails_while_a_shard_is_unloaded_does_not_reach_the_change_of_roles(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = await loaded()
    monkeypatch.setattr(bench.machine, "on_unloaded", broken)
    bench.shard.unload()
    await assert_offline(bench, caplog, "a member is in two groups")


async def test_a_machine_is_told_of_the_records_that_were_written_before_a_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Records that may be parted are several batches, and the disk may be full after the first."""
    bench = await loaded(max_message_bytes="200")
    append = bench.partition.append
    appended: list[Appended] = []

    def once(*arguments: Any) -> Appended:
        if appended:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
        appended.append(append(*arguments))
        return appended[0]

    monkeypatch.setattr(bench.partition, "append", once)
    many = [Add(f"name-{number}", number) for number in range(30)]
    bench.shard.run(lambda: Decision(many, is_atomic=False))
    count = bench.partition.log.log_end_offset
    assert 0 < count < len(many)
    assert bench.machine.counts == {f"name-{number}": number for number in range(count)}
    assert f"{count} of 30 records were written" in logged(caplog)


async def test_records_that_land_elsewhere_take_the_shard_offline(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = await loaded()
    append = bench.partition.append

    def twice(*arguments: Any) -> Appended:
        append(*arguments)
        return append(*arguments)._replace(base_offset=0)

    monkeypatch.setattr(bench.partition, "append", twice)
    assert code_of(bench.add("a", 1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.machine.counts == {}
    monkeypatch.undo()
    await assert_offline(bench, caplog, "1 records from 0 to 2")
