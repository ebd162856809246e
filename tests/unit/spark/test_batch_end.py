"""Micro-batches that are written exactly once, whoever crashes when: in a world of plain dictionaries."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.client.transaction_state import PreparedTransaction
from runnel.spark.batch_end import abort_batch, commit_batch, settle
from runnel.spark.decision import Decision, Offer, UnreadableDecision, plan_commit
from runnel.spark.error import WriteError
from runnel.spark.transaction_name import TaskNames, task_names

A, B, C = (PreparedTransaction(name, number, 0) for number, name in enumerate("abc"))


class Crash(Exception):  # noqa: N818 - it is none
    """Somebody was killed."""


class Brokers:
    """What outlives a crash: transactions, with the batch that each is about, and decisions."""

    def __init__(self, *, has_decisions: bool = True) -> None:
        self.open: dict[PreparedTransaction, int] = {}
        self.committed: list[tuple[int, PreparedTransaction]] = []
        self.aborted: set[PreparedTransaction] = set()
        self.decision: Decision | None = None
        self.has_decisions = has_decisions
        self.driver = 0
        self._count = 0

    def prepare(self, batch_id: int, run_id: str, task: int) -> PreparedTransaction:
        self._count += 1
        transaction = PreparedTransaction(f"{run_id}-{task}", self._count, 0)
        self.open[transaction] = batch_id
        return transaction


class FakeDesk:
    """Crashes at the call that `crash_at` says, before it or behind it."""

    def __init__(self, brokers: Brokers, crash_at: int | None = None) -> None:
        self.brokers = brokers
        self._left = crash_at
        brokers.driver += 1
        self._driver = brokers.driver

    def _step(self) -> None:
        if self._left is not None:
            if self._left == 0:
                raise Crash
            self._left -= 1

    def take(self) -> Decision | None:
        self._step()
        self.brokers.driver += 1
        self._driver = self.brokers.driver
        self._step()
        return self.brokers.decision

    def decide(self, decision: Decision) -> None:
        self._step()
        assert self._driver == self.brokers.driver, "a driver decides that was succeeded"
        if self.brokers.has_decisions:
            self.brokers.decision = decision
        self._step()

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> None:
        for transaction in transactions:
            self._step()
            batch_id = self.brokers.open.pop(transaction, None)
            if commit:
                assert transaction not in self.brokers.aborted, "what was decided is lost"
                if batch_id is not None:
                    self.brokers.committed.append((batch_id, transaction))
            elif batch_id is not None:
                self.brokers.aborted.add(transaction)
        self._step()

    def is_search_due(self) -> bool:
        return False

    def find_open(self, transactions: Sequence[PreparedTransaction]) -> list[PreparedTransaction]:
        self._step()
        return [transaction for transaction in transactions if transaction in self.brokers.open]

    def find_remains(self, decided: Decision | None, names: Iterable[str] = ()) -> list[PreparedTransaction]:
        self._step()
        kept = () if decided is None else decided.transactions
        return [each for each in self.brokers.open if each not in kept and each.transactional_id not in [*names]]


def run_query(brokers: Brokers, batch_count: int, crashes: Sequence[int | None]) -> None:
    """Run batches one after the other; each crash is one of the driver in the batch that it is at, then it restarts."""
    todo = list(crashes)
    batch_id = run = 0
    while batch_id < batch_count:
        crash_at = todo.pop(0) if todo else None
        offer = Offer("q", f"r{run}", batch_id, tuple(brokers.prepare(batch_id, f"r{run}", task) for task in range(2)))
        desk = FakeDesk(brokers, crash_at)
        try:
            commit_batch(desk, offer)
        except Crash:
            run += 1
            continue
        batch_id += 1


def written(brokers: Brokers) -> list[int]:
    """The batches whose rows are in the output, each as often as they are; both tasks of one attempt make a batch."""
    attempts: dict[tuple[int, str], int] = {}
    for batch_id, transaction in brokers.committed:
        attempt = batch_id, transaction.transactional_id.rsplit("-", 1)[0]
        attempts[attempt] = attempts.get(attempt, 0) + 1
    assert set(attempts.values()) <= {2}, f"a batch is torn: {attempts}"
    return sorted(batch_id for batch_id, _ in attempts)


@given(st.lists(st.one_of(st.none(), st.integers(0, 12)), max_size=12))
def test_every_batch_is_in_the_output_once_wherever_drivers_crash(crashes: list[int | None]) -> None:
    brokers = Brokers()
    run_query(brokers, 3, crashes)
    assert written(brokers) == [0, 1, 2]
    assert brokers.open == {}


def test_without_decisions_a_crash_writes_a_batch_twice() -> None:
    """The decision is what it stands on: with it switched off, the same crashes are found."""
    found = set()
    for crash_at in range(8):
        brokers = Brokers(has_decisions=False)
        try:
            run_query(brokers, 2, [None, crash_at])
            found.add(tuple(written(brokers)))
        except AssertionError as torn:
            found.add(str(torn)[:15])
    assert {(0, 1, 1), "a batch is torn"} <= found


def test_a_batch_that_failed_before_it_was_decided_is_taken_back() -> None:
    brokers = Brokers()
    transactions = tuple(brokers.prepare(0, "r", task) for task in range(2))
    abort_batch(FakeDesk(brokers), Offer("q", "r", 0, transactions))
    assert brokers.aborted == set(transactions)


def test_a_batch_that_was_decided_is_not_taken_back_when_its_commit_fails() -> None:
    """Spark aborts a batch whose commit raised an error, and the error may have come after the decision."""
    brokers = Brokers()
    offer = Offer("q", "r", 0, tuple(brokers.prepare(0, "r", task) for task in range(2)))
    with pytest.raises(Crash):
        commit_batch(FakeDesk(brokers, 5), offer)
    assert brokers.decision is not None
    abort_batch(FakeDesk(brokers), offer)
    assert brokers.aborted == set()


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_driver_that_was_succeeded_aborts_nothing(is_empty: bool) -> None:
    """One that was late looked for remains after its decision, and found what its successor had prepared by then."""
    brokers = Brokers()
    run_query(brokers, 1, [])
    transactions: list[PreparedTransaction] = []

    class LateDesk(FakeDesk):
        def find_remains(self, decided: Decision | None, names: Iterable[str] = ()) -> list[PreparedTransaction]:
            FakeDesk(self.brokers).take()
            transactions.extend(brokers.prepare(2, "r2", task) for task in range(2))
            return super().find_remains(decided, names)

    offered = () if is_empty else (brokers.prepare(1, "r1", 0),)
    with pytest.raises(AssertionError, match="a driver decides that was succeeded"):
        commit_batch(LateDesk(brokers), Offer("q", "r1", 1, offered))
    assert set(transactions) <= set(brokers.open)


def test_a_query_is_settled() -> None:
    brokers = Brokers()
    decided, undecided = (brokers.prepare(0, "r", task) for task in range(2))
    brokers.decision = Decision(0, "r", (decided,))
    settle(FakeDesk(brokers))
    assert (brokers.committed, brokers.aborted, brokers.open) == ([(0, decided)], {undecided}, {})


def test_what_was_decided_counts_and_not_what_was_written_again() -> None:
    plan = plan_commit(Decision(4, "old", (A,)), Offer("q", "new", 4, (B, C)))
    assert (plan.decision, plan.commit, plan.abort) == (Decision(4, "new", (A,)), (A,), (B, C))
    assert plan.may_have_remains


def test_a_second_write_in_the_same_batch_is_an_error() -> None:
    with pytest.raises(WriteError, match="write to a topic once in each micro-batch"):
        plan_commit(Decision(4, "r", (A,)), Offer("q", "r", 4, (B,)))


def test_a_second_write_in_the_same_batch_is_an_error_when_the_batch_is_run_again_too() -> None:
    """The first write was known to be decided, and the second was taken for the same in another run: once the query
    was restarted after the error, the rows of the second write were dropped without a word.
    """
    brokers = Brokers()
    for run in ("r1", "r2", "r3"):
        first, second = (Offer("q", run, 0, (brokers.prepare(0, run, task),)) for task in range(2))
        commit_batch(FakeDesk(brokers), first)
        with pytest.raises(WriteError, match="write to a topic once in each micro-batch"):
            commit_batch(FakeDesk(brokers), second)
    assert [transaction.transactional_id for _, transaction in brokers.committed] == ["r1-0"]


def test_a_write_without_rows_does_not_stand_for_another_one_in_the_same_batch() -> None:
    brokers = Brokers()
    for run in ("r1", "r2"):
        commit_batch(FakeDesk(brokers), Offer("q", run, 0, ()))
        commit_batch(FakeDesk(brokers), Offer("q", run, 0, (brokers.prepare(0, run, 0),)))
        commit_batch(FakeDesk(brokers), Offer("q", run, 0, ()))
    assert [transaction.transactional_id for _, transaction in brokers.committed] == ["r1-0"]


def test_a_checkpoint_that_was_put_back_does_not_write_batches_again() -> None:
    plan = plan_commit(Decision(9, "r", (A,)), Offer("q", "r", 4, (B,)))
    assert (plan.decision, plan.commit, plan.abort) == (None, (), (B,))


def test_the_next_batch_is_decided_and_nobody_looks_for_remains_without_a_reason() -> None:
    plan = plan_commit(Decision(4, "r", (A,)), Offer("q", "r", 5, (B,)))
    assert (plan.decision, plan.commit, plan.abort, plan.may_have_remains) == (Decision(5, "r", (B,)), (B,), (), False)
    assert plan_commit(Decision(4, "r", (A,)), Offer("q", "r", 5, (B,), had_failures=True)).may_have_remains


def test_a_batch_without_rows_needs_no_decision() -> None:
    plan = plan_commit(Decision(4, "r", (A,)), Offer("q", "r", 5, ()))
    assert (plan.decision, plan.commit, plan.abort) == (None, (), ())


def test_decisions_are_written_and_read() -> None:
    decision = Decision(7, "run", (A, B))
    assert Decision.decode(decision.encode()) == decision
    assert decision.encode() == b'{"format":1,"batch":7,"run":"run","transactions":[["a",0,0],["b",1,0]]}'
    for other in (b"", b"{}", b"[]", b'{"format":2}', b'{"format":1,"batch":7,"run":"r","transactions":[[1]]}'):
        with pytest.raises(UnreadableDecision):
            Decision.decode(other)


# --- names


def test_a_worker_uses_a_name_once_in_a_batch_and_again_in_the_next() -> None:
    names = TaskNames()
    first = [names.take("q", "r", 0) for _ in range(3)]
    assert len(set(first)) == 3
    assert all(name.startswith(task_names("q")) for name in first)
    assert [names.take("q", "r", 1) for _ in range(3)] == first
    assert not {names.take("q", "other", 1), names.take("p", "r", 1)} & set(first)
    assert names.take("q", "r", 1) not in first
    assert TaskNames().take("q", "r", 0) not in first


def test_a_late_attempt_of_an_earlier_batch_takes_no_name_that_waits_for_its_end() -> None:
    """It took the first name again, and aborted what a task of the next batch had prepared under it."""
    names = TaskNames()
    names.take("q", "r", 0)
    waiting = names.take("q", "r", 1)
    assert names.take("q", "r", 0) != waiting
    assert names.take("q", "r", 1) != waiting


def test_a_worker_that_has_forgotten_what_it_used_takes_another_name() -> None:
    names = TaskNames()
    first = names.take("q", "r", 0)
    for number in range(300):
        names.take("q", f"r{number}", 0)
    assert names.take("q", "r", 0) != first
