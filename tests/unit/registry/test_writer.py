"""The leader's decisions in groups, on a store that keeps records in a list."""

import asyncio
import threading
from collections.abc import Sequence
from typing import cast

import pytest

from tailrace.registry import writer as writing
from tailrace.registry.core.error import Code, RegistryError
from tailrace.registry.core.parser import SchemaCache, SchemaParser
from tailrace.registry.core.record import Change, Entry, decode
from tailrace.registry.core.register import Draft, register
from tailrace.registry.core.state import State
from tailrace.registry.store import Row, SchemaStore
from tailrace.registry.writer import Decide, Writer


class ListStore:
    """Writes at once, or when it is let, or never."""

    def __init__(self) -> None:
        self.topic = "_schemas"
        self.state = State()
        self.is_writer = True
        self.term = 1
        self.groups: list[list[Row]] = []
        self.error: BaseException | None = None
        self.is_let = asyncio.Event()
        self.is_let.set()
        self.is_writing = False

    async def append(self, rows: Sequence[Row]) -> None:
        self.is_writing = True
        await self.is_let.wait()
        if self.error is not None:
            self.is_writer = False
            raise self.error
        self.groups.append(list(rows))
        for row in rows:
            self.state.replay(decode(*row))

    async def take_over(self) -> None:
        self.is_writer = True
        self.term += 1


class Bench:
    """A running writer and its store."""

    def __init__(self) -> None:
        self.store = ListStore()
        self.is_leader = True
        self.writer = Writer(cast(SchemaStore, self.store), SchemaCache(), lambda: self.is_leader)
        self._task = asyncio.create_task(self.writer.run())

    def register(self, subject: str, text: str) -> "asyncio.Task[Entry]":
        return asyncio.create_task(self.writer.change(registering(subject, text)))

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def registering(subject: str, text: str) -> Decide[Entry]:
    def decide(state: State, parser: SchemaParser) -> tuple[Sequence[Change], Entry]:
        decision = register(state, parser, Draft(subject, text))
        return decision.changes, decision.entry

    return decide


async def test_requests_that_wait_are_written_together_and_see_each_other() -> None:
    bench = Bench()
    bench.store.is_let.clear()
    first = bench.register("a", '"int"')
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [bench.register("b", '"long"'), bench.register("c", '"long"'), bench.register("a", '"int"')]
    await asyncio.sleep(0)
    bench.store.is_let.set()
    entries = [await each for each in (first, *others)]
    assert [(entry.subject, entry.id) for entry in entries] == [("a", 1), ("b", 2), ("c", 2), ("a", 1)]
    assert [len(group) for group in bench.store.groups] == [1, 2]
    await bench.stop()


async def test_nothing_is_shown_before_it_is_written() -> None:
    bench = Bench()
    bench.store.is_let.clear()
    waiting = bench.register("a", '"int"')
    for _ in range(5):
        await asyncio.sleep(0)
    assert bench.store.state.subjects() == []
    assert not waiting.done()
    bench.store.is_let.set()
    await waiting
    assert bench.store.state.subjects() == ["a"]
    await bench.stop()


async def test_a_request_that_is_refused_costs_the_others_nothing() -> None:
    bench = Bench()
    results = await asyncio.gather(
        bench.register("a", "no schema"),
        bench.register("b", '"int"'),
        bench.register("c", '{"type":"enum","name":"E","symbols":["%s"]}' % ("x" * 2_000_000)),
        bench.register("d", '"long"'),
        return_exceptions=True,
    )
    codes = [each.code if isinstance(each, RegistryError) else None for each in results]
    assert codes == [Code.INVALID_SCHEMA, None, Code.SCHEMA_TOO_LARGE, None]
    assert [each.id for each in results if isinstance(each, Entry)] == [1, 2]
    await bench.stop()


async def test_a_write_that_fails_leaves_no_trace() -> None:
    """The draft was ahead of the topic by what was not written. The next decision starts from the topic again."""
    bench = Bench()
    bench.store.error = RegistryError(Code.TIMED_OUT, "slow")
    with pytest.raises(RegistryError) as caught:
        await bench.register("a", '"int"')
    assert caught.value.code is Code.TIMED_OUT
    bench.store.error = None
    entry = await bench.register("b", '"long"')
    assert (entry.id, bench.store.state.subjects()) == (1, ["b"])
    await bench.stop()


async def test_a_leader_that_returns_decides_on_what_others_have_written() -> None:
    bench = Bench()
    await bench.register("a", '"int"')
    for change in register(bench.store.state, SchemaParser(bench.store.state), Draft("b", '"long"')).changes:
        bench.store.state.replay(change)
    bench.store.term += 1
    assert (await bench.register("c", '"string"')).id == 3
    await bench.stop()


async def test_a_registry_that_does_not_lead_decides_nothing() -> None:
    bench = Bench()
    bench.is_leader = False
    with pytest.raises(RegistryError) as caught:
        await bench.register("a", '"int"')
    assert caught.value.code is Code.UNKNOWN_LEADER
    await bench.stop()


async def test_a_bug_in_one_decision_costs_the_others_nothing() -> None:
    bench = Bench()

    def fail(_state: State, _parser: SchemaParser) -> tuple[Sequence[Change], Entry]:
        raise ZeroDivisionError

    failing = asyncio.create_task(bench.writer.change(fail))
    other = bench.register("a", '"int"')
    with pytest.raises(ZeroDivisionError):
        await failing
    assert (await other).id == 1
    await bench.stop()


async def test_a_leader_that_is_replaced_while_it_takes_over_writes_nothing() -> None:
    bench = Bench()
    bench.store.is_writer = False
    take_over = bench.store.take_over

    async def take_over_late() -> None:
        await take_over()
        bench.is_leader = False

    bench.store.take_over = take_over_late  # type: ignore[method-assign]
    with pytest.raises(RegistryError) as caught:
        await bench.register("a", '"int"')
    assert caught.value.code is Code.UNKNOWN_LEADER
    assert bench.store.groups == []
    await bench.stop()


async def test_the_event_loop_runs_while_a_decision_is_made() -> None:
    """Decisions were made on the event loop. One about a megabyte of JSON Schema took longer than the session timeout
    of the registry, so it lost the leadership before it could write."""
    bench = Bench()
    has_begun, may_end = threading.Event(), threading.Event()

    def decide(_state: State, _parser: SchemaParser) -> tuple[Sequence[Change], bool]:
        has_begun.set()
        return (), may_end.wait(60)

    deciding = asyncio.create_task(bench.writer.change(decide))
    while not has_begun.is_set():
        await asyncio.sleep(0)
    may_end.set()
    assert await deciding
    await bench.stop()


async def test_a_group_that_takes_long_is_written_before_all_of_it_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    monkeypatch.setattr(writing, "REGISTRY_DECIDING_S_MAX", -1.0)
    waiting = [bench.register(subject, '"int"') for subject in ("a", "b", "c")]
    await waiting[0]
    waiting.append(bench.register("d", '"long"'))
    assert [(each.subject, each.id) for each in await asyncio.gather(*waiting)] == [
        ("a", 1),
        ("b", 1),
        ("c", 1),
        ("d", 2),
    ]
    assert [len(group) for group in bench.store.groups] == [1, 1, 1, 1]
    await bench.stop()


async def test_a_write_that_fails_does_not_fail_requests_that_are_not_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    monkeypatch.setattr(writing, "REGISTRY_DECIDING_S_MAX", -1.0)
    bench.store.is_let.clear()
    bench.store.error = RegistryError(Code.TIMED_OUT, "slow")
    first, second = bench.register("a", '"int"'), bench.register("b", '"long"')
    while not bench.store.is_writing:
        await asyncio.sleep(0)
    bench.store.is_let.set()
    with pytest.raises(RegistryError):
        await first
    bench.store.error = None
    assert (await second).id == 1
    await bench.stop()


async def test_a_leader_that_is_replaced_while_it_decides_writes_nothing() -> None:
    bench = Bench()

    def decide(state: State, parser: SchemaParser) -> tuple[Sequence[Change], Entry]:
        bench.is_leader = False
        return registering("a", '"int"')(state, parser)

    with pytest.raises(RegistryError) as caught:
        await bench.writer.change(decide)
    assert caught.value.code is Code.UNKNOWN_LEADER
    assert bench.store.groups == []
    await bench.stop()


async def test_a_cancellation_that_is_not_meant_for_the_writer_does_not_end_it() -> None:
    """A producer that is closed when another registry is elected cancels what waits for its connections. The writer
    took that for its own end, and when its registry led again no write was ever answered."""
    bench = Bench()
    bench.store.error = asyncio.CancelledError()
    with pytest.raises(RegistryError) as caught:
        await bench.register("a", '"int"')
    assert caught.value.code is Code.STORE_FAILED
    bench.store.error = None
    assert (await bench.register("b", '"long"')).id == 1
    await bench.stop()
