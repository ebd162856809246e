"""Micro-batches that are written exactly once, whoever crashes when: in a world of plain dictionaries."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.desk_orders import run_drivers
from tests.unit.spark.desk_model import Brokers, Crash, ModelDesk, crash_at

from tailrace.client.transaction.state import PreparedTransaction
from tailrace.spark.batch_end import abort_batch, commit_batch, settle
from tailrace.spark.claim import Claim, RunReplaced, check_run, extend_claim, list_remains
from tailrace.spark.decision import Decision, Offer, Plan, plan_commit
from tailrace.spark.error import RetriableWriteError, UnreadableRecord, WriteError
from tailrace.spark.transaction_name import TaskNames, task_names

A, B, C = (PreparedTransaction(name, number, 0) for number, name in enumerate("abc"))


def run_query(brokers: Brokers, batch_count: int, crashes: Sequence[int | None]) -> None:
    """Run batches one after the other; each crash is one of the driver in the batch that it is at, then it restarts."""
    todo = list(crashes)
    batch_id = run = 0
    while batch_id < batch_count:
        call = todo.pop(0) if todo else None
        offer = Offer("q", f"r{run}", batch_id, tuple(brokers.prepare(batch_id, f"r{run}", task) for task in range(2)))
        desk = ModelDesk(brokers, crash_at(call))
        try:
            commit_batch(desk, offer)
        except Crash:
            run += 1
            continue
        batch_id += 1


@given(st.lists(st.one_of(st.none(), st.integers(0, 16)), max_size=12))
def test_every_batch_is_in_the_output_once_wherever_drivers_crash(crashes: list[int | None]) -> None:
    brokers = Brokers()
    run_query(brokers, 3, crashes)
    assert brokers.written() == [0, 1, 2]
    assert brokers.open == {}


def test_without_decisions_a_crash_writes_a_batch_twice() -> None:
    """The decision is what it stands on: with it switched off, the same crashes are found."""
    found: set[tuple[int, ...] | str] = set()
    for call in range(16):
        brokers = Brokers(has_decisions=False)
        try:
            run_query(brokers, 2, [None, call])
            found.add(tuple(brokers.written()))
        except AssertionError as torn:
            found.add(str(torn)[:15])
    assert {(0, 1, 1), "a batch is torn"} <= found


def test_a_batch_that_failed_before_it_was_decided_is_taken_back() -> None:
    brokers = Brokers()
    transactions = tuple(brokers.prepare(0, "r", task) for task in range(2))
    abort_batch(ModelDesk(brokers), Offer("q", "r", 0, transactions, is_complete=False))
    assert brokers.aborted == set(transactions)


def test_a_batch_whose_commit_failed_is_left_to_the_next_run() -> None:
    """Spark aborts a batch whose commit raised an error, and the worker that raised it may have decided before; or it
    only seemed to fail, and decides later. What was aborted then was decided and lost.
    """
    brokers = Brokers()
    offer = Offer("q", "r1", 0, tuple(brokers.prepare(0, "r1", task) for task in range(2)))
    abort_batch(ModelDesk(brokers), offer)
    assert set(brokers.open) == set(offer.transactions)
    commit_batch(ModelDesk(brokers), Offer("q", "r2", 0, tuple(brokers.prepare(0, "r2", task) for task in range(2))))
    assert (brokers.aborted, brokers.open) == (set(offer.transactions), {})


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_worker_that_was_succeeded_aborts_nothing(is_empty: bool) -> None:
    """One that was late looked for remains after its decision, and found what its successor had prepared by then."""
    brokers = Brokers()
    run_query(brokers, 1, [])
    transactions: list[PreparedTransaction] = []

    class LateDesk(ModelDesk):
        def find_remains(self, decided: Decision | None, names: Iterable[str] = ()) -> list[PreparedTransaction]:
            ModelDesk(self.brokers).take("r2")
            transactions.extend(brokers.prepare(2, "r2", task) for task in range(2))
            return super().find_remains(decided, names)

    offered = () if is_empty else (brokers.prepare(1, "r1", 0),)
    with pytest.raises(WriteError, match="another worker has taken the desk"):
        commit_batch(LateDesk(brokers), Offer("q", "r1", 1, offered))
    assert set(transactions) <= set(brokers.open)


def test_a_query_is_settled() -> None:
    brokers = Brokers()
    decided, undecided = (brokers.prepare(0, "r", task) for task in range(2))
    brokers.decision = Decision(0, "r", (decided,))
    settle(ModelDesk(brokers), "end")
    assert (brokers.committed, brokers.aborted, brokers.open) == ([(0, decided)], {undecided}, {})


def test_what_was_decided_counts_and_not_what_was_written_again() -> None:
    plan = plan_commit(Decision(4, "old", (A,)), Offer("q", "new", 4, (B, C)))
    assert plan == Plan(Decision(4, "new", (A,)), (A,), (B, C))


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
        commit_batch(ModelDesk(brokers), first)
        with pytest.raises(WriteError, match="write to a topic once in each micro-batch"):
            commit_batch(ModelDesk(brokers), second)
    assert [transaction.transactional_id for _, transaction in brokers.committed] == ["r1-0"]


def test_a_write_without_rows_does_not_stand_for_another_one_in_the_same_batch() -> None:
    brokers = Brokers()
    for run in ("r1", "r2"):
        commit_batch(ModelDesk(brokers), Offer("q", run, 0, ()))
        commit_batch(ModelDesk(brokers), Offer("q", run, 0, (brokers.prepare(0, run, 0),)))
        commit_batch(ModelDesk(brokers), Offer("q", run, 0, ()))
    assert [transaction.transactional_id for _, transaction in brokers.committed] == ["r1-0"]


def test_a_checkpoint_that_was_put_back_is_an_error() -> None:
    """The batches up to the last decision, which have other rows then, were left out with a line in the log."""
    brokers = Brokers()
    commit_batch(ModelDesk(brokers), Offer("q", "r", 9, (decided := brokers.prepare(9, "r", 0),)))
    offered = brokers.prepare(4, "new", 0)
    with pytest.raises(
        WriteError, match=r"older .* it goes on with batch 4 of q, and batch 9 .* Batches 4 to 9 would be left out"
    ):
        commit_batch(ModelDesk(brokers), Offer("q", "new", 4, (offered,)))
    assert (brokers.committed, brokers.aborted, brokers.open) == ([(9, decided)], {offered}, {})
    commit_batch(ModelDesk(brokers), Offer("q", "new", 4, ()))


@pytest.mark.parametrize("has_rows", [True, False])
def test_a_checkpoint_that_is_older_by_one_batch_is_an_error(has_rows: bool) -> None:
    """The batch was planned anew with the rows that had come since, and was left out as a repeated one."""
    brokers = Brokers()
    commit_batch(ModelDesk(brokers), Offer("q", "r", 9, (decided := brokers.prepare(9, "r", 0),), plan="9:a"))
    offered = (brokers.prepare(9, "new", 0),) if has_rows else ()
    with pytest.raises(WriteError, match=r"planned batch 9 of q anew, and the topic has another batch 9\. This"):
        commit_batch(ModelDesk(brokers), Offer("q", "new", 9, offered, plan="9:b"))
    assert (brokers.committed, brokers.aborted, brokers.open) == ([(9, decided)], set(offered), {})


def test_batches_without_rows_up_to_the_last_one_of_the_topic_are_compared_with_it() -> None:
    """The run had claimed the sink in the first of them, so the second passed without a look at the decision, and the
    batch after it wrote the rows of the topic's last batch again.
    """
    brokers = Brokers()
    commit_batch(ModelDesk(brokers), Offer("q", "r", 9, (brokers.prepare(9, "r", 0),), plan="9:a"))
    desk = ModelDesk(brokers)
    commit_batch(desk, Offer("q", "new", 8, (), plan="8:b"))
    with pytest.raises(WriteError, match="planned batch 9 of q anew"):
        commit_batch(desk, Offer("q", "new", 9, (), plan="9:b"))
    commit_batch(desk, Offer("q", "new", 9, (), plan="9:a"))


@pytest.mark.parametrize("batch_id", [8, 9])
def test_a_decision_is_carried_out_also_if_an_older_checkpoint_was_put_back(batch_id: int) -> None:
    """The driver crashed between its decision and the commit. The query failed before it committed what was decided,
    and readers of committed records waited at the prepared transactions for good.
    """
    brokers = Brokers()
    decided = tuple(brokers.prepare(9, "r", task) for task in range(2))

    class CrashingDesk(ModelDesk):
        def decide(self, decision: Decision) -> None:
            super().decide(decision)
            raise Crash

    with pytest.raises(Crash):
        commit_batch(CrashingDesk(brokers), Offer("q", "r", 9, decided, plan="9:a"))
    ModelDesk(brokers).end(decided[:1], commit=True)
    offered = brokers.prepare(batch_id, "new", 0)
    with pytest.raises(WriteError, match="older than what it has written"):
        commit_batch(ModelDesk(brokers), Offer("q", "new", batch_id, (offered,), plan=f"{batch_id}:b"))
    assert (brokers.committed, brokers.aborted) == ([(9, each) for each in decided], {offered})
    assert brokers.open == {}


def test_a_later_decision_is_carried_out_by_a_batch_without_rows() -> None:
    """Such a batch leaves nothing out, so the query goes on; the decided transactions stayed open."""
    brokers = Brokers()
    decided = brokers.prepare(9, "r", 0)
    brokers.decision = Decision(9, "r", (decided,))
    commit_batch(ModelDesk(brokers), Offer("q", "new", 4, ()))
    assert (brokers.committed, brokers.aborted, brokers.open) == ([(9, decided)], set(), {})


@pytest.mark.parametrize(("decided", "offered"), [("4:a", "4:a"), ("4:a", None), (None, "4:a"), ("3:b", "4:a")])
def test_a_decision_keeps_the_plan_of_its_batch(decided: str | None, offered: str | None) -> None:
    """Earlier versions have decided without it, or have changed only the number of the batch."""
    assert plan_commit(None, Offer("q", "r", 4, (A,), plan=offered)).decision == Decision(4, "r", (A,), offered)
    plan = plan_commit(Decision(4, "old", (A,), decided), Offer("q", "new", 4, (B,), plan=offered))
    assert plan == Plan(Decision(4, "new", (A,), "4:a"), (A,), (B,))


def test_the_next_batch_is_decided() -> None:
    plan = plan_commit(Decision(4, "r", (A,)), Offer("q", "r", 5, (B,)))
    assert plan == Plan(Decision(5, "r", (B,)), (B,), ())


@pytest.mark.parametrize(("had_failures", "search_count"), [(False, 1), (True, 3)])
def test_a_run_searches_for_remains_once_and_after_failures(had_failures: bool, search_count: int) -> None:
    brokers = Brokers()
    searches = []

    class CountingDesk(ModelDesk):
        def find_remains(self, decided: Decision | None, names: Iterable[str] = ()) -> list[PreparedTransaction]:
            searches.append(decided)
            return super().find_remains(decided, names)

    desk = CountingDesk(brokers)
    for batch_id in range(3):
        offered = tuple(brokers.prepare(batch_id, "r", task) for task in range(2))
        commit_batch(desk, Offer("q", "r", batch_id, offered, had_failures))
    assert len(searches) == search_count


def test_a_batch_without_rows_needs_no_decision() -> None:
    plan = plan_commit(Decision(4, "r", (A,)), Offer("q", "r", 5, ()))
    assert (plan.decision, plan.commit, plan.abort) == (None, (), ())


def test_decisions_are_written_and_read() -> None:
    decision = Decision(7, "run", (A, B))
    assert Decision.decode(decision.encode()) == decision
    assert decision.encode() == b'{"format":1,"batch":7,"run":"run","transactions":[["a",0,0],["b",1,0]]}'
    planned = Decision(7, "run", (A,), "7:a")
    assert Decision.decode(planned.encode()) == planned
    assert planned.encode() == b'{"format":1,"batch":7,"run":"run","transactions":[["a",0,0]],"plan":"7:a"}'
    for other in (b"", b"{}", b"[]", b'{"format":2}', b'{"format":1,"batch":7,"run":"r","transactions":[[1]]}'):
        with pytest.raises(UnreadableRecord):
            Decision.decode(other)


# --- several workers, and several drivers


def test_every_batch_is_in_the_output_once_whichever_workers_and_drivers_run_at_the_same_time() -> None:
    """`make desk-orders` runs many more of these orders."""
    for seed in range(300):
        run_drivers(Brokers(), seed)


def goes_wrong(seed: int, missing: str) -> bool:
    try:
        run_drivers(Brokers(**{missing: False}), seed)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("missing", ["has_claims", "has_fence", "has_decisions"])
def test_without_claims_or_the_fence_or_decisions_an_order_is_found_that_goes_wrong(missing: str) -> None:
    """What the safety stands on: with any one of the three switched off, the same orders go wrong."""
    assert any(goes_wrong(seed, missing) for seed in range(300))


@pytest.mark.parametrize("has_lists", [True, False])
def test_a_slow_run_aborts_no_transaction_for_which_its_successor_has_decided(has_lists: bool) -> None:
    """A run took what its successor had prepared for remains, was slow to abort them, and the successor, which had
    claimed the sink and decided meanwhile, lost a batch. The model of all orders found it.
    """
    brokers = Brokers(has_lists=has_lists)
    next_offer = Offer("q", "r2", 0, tuple(brokers.prepare(0, "r2", task) for task in range(2)))

    class CrashingDesk(ModelDesk):
        def decide(self, decision: Decision) -> None:
            super().decide(decision)
            raise Crash

    class SlowDesk(ModelDesk):
        def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> None:
            if set(transactions) & set(next_offer.transactions):
                commit_next()
            super().end(transactions, commit=commit)

    def commit_next() -> None:
        if has_lists:
            with pytest.raises(RetriableWriteError, match="batch 0 of q must be written again"):
                commit_batch(ModelDesk(brokers), next_offer)
        else:
            with pytest.raises(Crash):
                commit_batch(CrashingDesk(brokers), next_offer)

    commit_batch(SlowDesk(brokers), Offer("q", "r1", 0, ()))
    assert brokers.aborted == set(next_offer.transactions)
    if has_lists:
        commit_batch(ModelDesk(brokers), Offer("q", "r3", 0, tuple(brokers.prepare(0, "r3", task) for task in (0, 1))))
        assert brokers.written() == [0]
    else:
        with pytest.raises(AssertionError, match="what was decided is lost"):
            commit_batch(ModelDesk(brokers), Offer("q", "r3", 0, ()))


def test_a_worker_that_lost_its_turn_takes_over_again() -> None:
    brokers = Brokers()
    first, second = ModelDesk(brokers), ModelDesk(brokers)
    for batch_id, desk in enumerate((first, second, first, first, second)):
        commit_batch(desk, Offer("q", "r", batch_id, tuple(brokers.prepare(batch_id, "r", task) for task in range(2))))
    assert brokers.written() == [0, 1, 2, 3, 4]


def test_a_run_that_was_replaced_is_told_so_and_disturbs_nobody() -> None:
    brokers = Brokers()
    old, new = ModelDesk(brokers), ModelDesk(brokers)
    old.take("r1")
    new.take("r2")
    epoch = brokers.epoch
    offered = (brokers.prepare(0, "r1", 0),)
    for desk in (old, ModelDesk(brokers)):
        with pytest.raises(RunReplaced, match="run r1 of the query no longer writes to q: run r2 has replaced it"):
            commit_batch(desk, Offer("q", "r1", 0, offered))
    assert (brokers.epoch, brokers.aborted) == (epoch, set(offered))


def test_claims_list_runs_in_their_order() -> None:
    claim = extend_claim(None, "w1", "r1")
    assert claim == Claim("w1", ("r1",))
    assert extend_claim(claim, "w2", "r1") == Claim("w2", ("r1",))
    assert extend_claim(claim, "w2", "r2") == Claim("w2", ("r1", "r2"))
    for newest, run_id in ((None, "r"), (claim, "r1"), (claim, "r2")):
        check_run(newest, run_id, "q")
    listed = list_remains(claim, [A, B])
    assert listed == Claim("w1", ("r1",), (A, B))
    assert extend_claim(listed, "w2", "r2").remains == (A, B)
    assert list_remains(listed, [C, B]).remains == (B, C)
    many = [PreparedTransaction("x" * 60, number, 0) for number in range(10_000)]
    assert list_remains(listed, [*many, B]).remains[:2] == (B, many[0])
    assert len(list_remains(listed, many).remains) == 5_000
    for number in range(2, 1_100):
        claim = extend_claim(claim, "w", f"r{number}")
    assert claim.runs == tuple(f"r{number}" for number in range(100, 1_100))


def test_claims_are_written_and_read() -> None:
    claim = Claim("w", ("r1", "r2"), (A,))
    assert Claim.decode(claim.encode()) == claim
    assert claim.encode() == b'{"format":1,"worker":"w","runs":["r1","r2"],"remains":[["a",0,0]]}'
    for other in (b"", b"{}", b"[]", b'{"format":2}', b'{"format":1,"worker":"w","runs":7,"remains":[]}'):
        with pytest.raises(UnreadableRecord):
            Claim.decode(other)


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
