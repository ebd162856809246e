"""What a producer makes of what coordinators answer, or do not; the coordinator here says what a test tells it to."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.now import now
from tests.settled import settled

from tailrace.client.cluster import Cluster
from tailrace.client.error import (
    BrokerUnavailable,
    ClientClosed,
    CommitFailed,
    ProducerFenced,
    RequestTimeout,
    TransactionFailed,
)
from tailrace.client.group.offset import GroupMetadata, OffsetAndMetadata
from tailrace.client.produce.delivery import LoopReceipt, Outcome
from tailrace.client.produce.outbox import Outbox
from tailrace.client.produce.queue import Drained, OutboxOptions
from tailrace.client.produce.sequence import Identity
from tailrace.client.topic_partition import TopicPartition
from tailrace.client.transaction.coordinator import TransactionCoordinator
from tailrace.client.transaction.scope import abandon, finish, give_up
from tailrace.client.transaction.state import Phase
from tailrace.client.transaction.transaction import Transactions
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdResponse

PLACE = TopicPartition("t", 0)
OFFSETS = {PLACE: OffsetAndMetadata(1)}
GROUP = GroupMetadata("g")
LOST = BrokerUnavailable("the connection was lost")


class Script:
    """Answers for each request: what is left when all are used is success."""

    def __init__(self, *, is_v2: bool = True) -> None:
        self.generation = is_v2
        self.answers: dict[str, list[ErrorCode | Exception]] = {}
        self.asked: list[str] = []
        self.epoch = 0

    def answer(self, name: str, *answers: ErrorCode | Exception) -> None:
        self.answers[name] = list(answers)

    def _next(self, name: str) -> None:
        self.asked.append(name)
        if self.answers.get(name):
            error = self.answers[name].pop(0)
            raise ApiError(error, name) if isinstance(error, ErrorCode) else error

    async def is_v2(self) -> bool:
        return self.generation

    async def init(self, timeout_ms: int, **options: Any) -> InitProducerIdResponse:
        self._next("resume" if options.get("resume") else "init")
        self.epoch += 1
        return InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch)

    async def add_partitions(self, identity: Identity, targets: list[TopicPartition]) -> None:
        self._next("add_partitions")

    async def add_offsets(self, identity: Identity, group_id: str) -> None:
        self._next("add_offsets")

    async def commit_offsets(self, *arguments: Any, **options: Any) -> None:
        self._next("commit_offsets")

    async def end(self, identity: Identity, *, commit: bool, is_v2: bool) -> Identity | None:
        self._next("commit" if commit else "abort")
        self.epoch += is_v2
        return Identity(7, self.epoch) if is_v2 else None


class World:
    """Transactions with an outbox, and a sender's part that a test plays itself."""

    def __init__(self, script: Script, monkeypatch: pytest.MonkeyPatch, max_block_ms: int = 60_000) -> None:
        for name in ("is_v2", "init", "add_partitions", "add_offsets", "commit_offsets", "end"):
            replacement = getattr(script, name)
            monkeypatch.setattr(TransactionCoordinator, name, _method(replacement))
        self.outbox = Outbox(OutboxOptions(1000, 0.0, 10_000, 1000, 100.0, True), LoopReceipt)
        self.transactions = Transactions(
            Cluster("localhost:1", retry_backoff_ms=1, retry_backoff_max_ms=2),
            self.outbox,
            "id",
            timeout_ms=60_000,
            max_block_ms=max_block_ms,
            is_two_phase=False,
        )
        self.tasks: list[asyncio.Task[None]] = []
        self.transactions.bind(self._start, lambda: None)

    def _start(self, work: Any) -> asyncio.Task[None]:
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    @property
    def phase(self) -> Phase:
        return self.transactions.state.phase

    def send(self, value: bytes = b"v") -> "asyncio.Future[Any]":
        taken = self.outbox.append("t", 0, (1000, None, value, ()), 20, 0.0)
        assert taken is not None
        return taken[0]  # type: ignore[no-any-return]

    def drain(self) -> Drained:
        drained = self.outbox.drain(
            1.0, lambda _: 1, lambda _: True, self.transactions.identity, self.transactions.admits
        )
        self.transactions.mend(drained)
        return drained

    def write(self) -> None:
        """Have everything leave and be acknowledged."""
        for batches in self.drain().requests.values():
            for batch in batches:
                self.outbox.acknowledge(batch)
                batch.succeed(Outcome(0))
        self.outbox.tell_progress()


def _method(replacement: Callable[..., Awaitable[Any]]) -> Any:
    return lambda _, *arguments, **options: replacement(*arguments, **options)


def run(
    monkeypatch: pytest.MonkeyPatch,
    test: Callable[[World, Script], Awaitable[None]],
    *,
    is_v2: bool = True,
    max_block_ms: int = 60_000,
) -> None:
    async def main() -> None:
        script = Script(is_v2=is_v2)
        async with asyncio.timeout(60):
            await test(World(script, monkeypatch, max_block_ms), script)

    asyncio.run(main())


async def open_with_record(world: World) -> None:
    await world.transactions.begin()
    world.send()
    world.write()


@pytest.mark.parametrize("is_v2", [True, False])
def test_what_passes_is_asked_again(monkeypatch: pytest.MonkeyPatch, is_v2: bool) -> None:
    async def test(world: World, script: Script) -> None:
        passing: list[ErrorCode | Exception] = [ErrorCode.CONCURRENT_TRANSACTIONS, LOST, ErrorCode.NOT_COORDINATOR]
        for name in ("init", "commit", "abort", "add_offsets", "commit_offsets"):
            script.answer(name, *passing)
        await world.transactions.begin()
        await world.transactions.send_offsets(OFFSETS, GROUP)
        await world.transactions.commit()
        await world.transactions.begin()
        await world.transactions.send_offsets(OFFSETS, GROUP)
        await world.transactions.abort()
        assert world.phase is Phase.READY
        assert [script.asked.count(name) for name in ("init", "commit", "abort")] == [4, 4, 4]
        assert script.asked.count("add_offsets") == (0 if is_v2 else 5)

    run(monkeypatch, test, is_v2=is_v2)


@pytest.mark.parametrize("first", [None, LOST, ErrorCode.NOT_COORDINATOR])
def test_a_fenced_producer_does_not_say_more_than_it_knows(
    monkeypatch: pytest.MonkeyPatch, first: ErrorCode | Exception | None
) -> None:
    """The transaction was committed, and the reply lost. Another producer took the id before the repetition came."""

    async def test(world: World, script: Script) -> None:
        await open_with_record(world)
        script.answer("commit", *([] if first is None else [first]), ErrorCode.PRODUCER_FENCED)
        text = "the transaction is not committed" if first is None else "unknown whether the transaction was committed"
        with pytest.raises(ProducerFenced, match=text):
            await world.transactions.commit()

    run(monkeypatch, test)


def test_a_commit_whose_time_is_over_can_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World, script: Script) -> None:
        await open_with_record(world)
        script.answer("commit", *[LOST] * 3000)
        with pytest.raises(RequestTimeout, match="max_block_ms"):
            await finish(world.transactions)
        assert now(world.phase) is Phase.COMMITTING
        assert "abort" not in script.asked  # it may be committed by now
        script.answer("commit")
        await world.transactions.commit()
        assert world.phase is Phase.READY

    run(monkeypatch, test, max_block_ms=30)


@pytest.mark.parametrize("is_v2", [True, False])
def test_an_end_that_has_to_be_an_abort_is_one(monkeypatch: pytest.MonkeyPatch, is_v2: bool) -> None:
    async def test(world: World, script: Script) -> None:
        await world.transactions.begin()
        await world.transactions.send_offsets(OFFSETS, GROUP)
        script.answer("commit", ErrorCode.TRANSACTION_ABORTABLE)
        with pytest.raises(TransactionFailed, match="TRANSACTION_ABORTABLE"):
            await finish(world.transactions)
        assert world.phase is Phase.READY
        # Where each end has its own epoch there is one; else it is asked for, since numbers may have gaps.
        assert script.asked[-2:] == (["commit", "abort"] if is_v2 else ["abort", "resume"])

    run(monkeypatch, test, is_v2=is_v2)


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("name", ["commit", "abort", "commit_offsets"])
def test_being_fenced_is_one_error_and_final(monkeypatch: pytest.MonkeyPatch, name: str, code: ErrorCode) -> None:
    async def test(world: World, script: Script) -> None:
        await open_with_record(world)
        script.answer(name, code)
        ask: dict[str, Callable[[], Awaitable[Any]]] = {
            "commit": world.transactions.commit,
            "abort": world.transactions.abort,
            "commit_offsets": lambda: world.transactions.send_offsets(OFFSETS, GROUP),
        }
        for call in (ask[name], *ask.values(), world.transactions.begin):
            with pytest.raises(ProducerFenced, match=r"transactional id id, or .*transaction_timeout_ms"):
                await call()
        with pytest.raises(ProducerFenced):
            world.send()
        await abandon(world.transactions, 1.0)  # there is nothing to abort any more
        assert world.phase is Phase.BROKEN

    run(monkeypatch, test)


def test_an_abort_that_fails_is_what_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World, script: Script) -> None:
        await open_with_record(world)
        script.answer("abort", ErrorCode.PRODUCER_FENCED)
        mistake = ValueError("a mistake in the block")
        with pytest.raises(ProducerFenced) as caught:
            await give_up(world.transactions, mistake)
        assert caught.value.__cause__ is mistake
        with pytest.raises(ProducerFenced) as caught:  # and so it is when it was known before
            await give_up(world.transactions, mistake)
        assert caught.value.__cause__ is mistake

    run(monkeypatch, test)


def test_offsets_that_may_be_missing_forbid_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World, script: Script) -> None:
        await world.transactions.begin()
        script.answer("commit_offsets", *[LOST] * 3000)
        with pytest.raises(RequestTimeout):
            await world.transactions.send_offsets(OFFSETS, GROUP)
        with pytest.raises(TransactionFailed, match="offsets may not be part"):
            await world.transactions.commit()
        await world.transactions.abort()
        script.answer("commit_offsets", ErrorCode.ILLEGAL_GENERATION)
        await world.transactions.begin()
        with pytest.raises(CommitFailed, match="ILLEGAL_GENERATION"):
            await world.transactions.send_offsets(OFFSETS, GROUP)
        with pytest.raises(CommitFailed):
            await world.transactions.commit()
        await world.transactions.abort()
        assert world.phase is Phase.READY

    run(monkeypatch, test, max_block_ms=30)


def test_partitions_are_added_before_they_are_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World, script: Script) -> None:
        await world.transactions.begin()
        world.send()
        script.answer("add_partitions", ErrorCode.CONCURRENT_TRANSACTIONS, LOST)
        assert world.drain().requests == {}
        await asyncio.gather(*world.tasks)
        assert script.asked.count("add_partitions") == 3
        assert len(world.drain().requests[1]) == 1

    run(monkeypatch, test, is_v2=False)


def test_partitions_that_cannot_be_added_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World, script: Script) -> None:
        await world.transactions.begin()
        future = world.send()
        script.answer("add_partitions", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        world.drain()
        await asyncio.gather(*world.tasks)
        with pytest.raises(TransactionFailed, match="TOPIC_AUTHORIZATION_FAILED"):
            await future
        # The coordinator has never heard of the transaction, so there is nothing to abort.
        script.answer("abort", ErrorCode.INVALID_TXN_STATE)
        with pytest.raises(TransactionFailed):
            await finish(world.transactions)
        assert world.phase is Phase.READY
        assert script.asked[-2:] == ["abort", "resume"]

    run(monkeypatch, test, is_v2=False)


def test_a_transaction_that_has_failed_adds_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that was still to be added kept the sender busy: each attempt ended at once, and woke it again."""

    async def test(world: World, script: Script) -> None:
        script.answer("add_partitions", ErrorCode.TRANSACTION_ABORTABLE)
        await world.transactions.begin()
        world.send()
        world.drain()
        await asyncio.gather(*world.tasks)
        assert world.phase is Phase.FAILED
        assert world.transactions.state.wanted
        for _ in range(3):
            world.drain()
        assert len(world.tasks) == 1

    run(monkeypatch, test, is_v2=False)


def test_nothing_is_taken_while_a_transaction_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World, script: Script) -> None:
        await world.transactions.begin()
        world.send()
        committing = asyncio.get_running_loop().create_task(world.transactions.commit())
        await settled()
        with pytest.raises(Exception, match="committing"):
            world.send()
        world.write()
        await committing
        assert script.asked == ["init", "commit"]

    run(monkeypatch, test)


def test_a_commit_that_meets_the_end_of_the_producer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is closed holds no records any more, which must not be taken for having written them."""

    async def test(world: World, script: Script) -> None:
        await open_with_record(world)
        world.send(b"never written")
        committing = asyncio.get_running_loop().create_task(world.transactions.commit())
        await settled()
        world.outbox.close()
        world.outbox.tell_progress()
        with pytest.raises(ClientClosed):
            await committing
        assert script.asked == ["init"]

    run(monkeypatch, test)


def test_a_cancelled_commit_can_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World, script: Script) -> None:
        await world.transactions.begin()
        world.send()
        committing = asyncio.get_running_loop().create_task(world.transactions.commit())
        await settled()
        committing.cancel()
        await asyncio.gather(committing, return_exceptions=True)
        world.write()
        await world.transactions.commit()
        assert world.phase is Phase.READY

    run(monkeypatch, test)


def test_a_failed_start_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World, script: Script) -> None:
        script.answer("init", ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        with pytest.raises(ApiError, match="INVALID_TRANSACTION_TIMEOUT"):
            await world.transactions.begin()
        await open_with_record(world)
        await world.transactions.commit()

    run(monkeypatch, test)
