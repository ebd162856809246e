"""Brokers as plain dictionaries, desks over them, and drivers whose workers take turns in any order.

`ModelDesk` claims a sink with the code of `TransactionDesk`, and calls `step` wherever another process may run or this
one may be killed: before and behind each request. `Schedule` gives each process a thread and lets one of them at
a time go on to its next step, so that an order is a list of numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tailrace.client.transaction.state import PreparedTransaction
from tailrace.spark.claim import Claim, RunReplaced
from tailrace.spark.claimed_desk import ClaimedDesk
from tailrace.spark.decision import Decision
from tailrace.spark.error import WriteError

Step = Callable[[], None]


class Crash(Exception):
    """A process was killed."""


class Brokers:
    """What outlives a crash: transactions, with the batch that each is about, claims and decisions."""

    def __init__(
        self, *, has_decisions: bool = True, has_claims: bool = True, has_fence: bool = True, has_lists: bool = True
    ) -> None:
        self.open: dict[PreparedTransaction, int] = {}
        self.committed: list[tuple[int, PreparedTransaction]] = []
        self.aborted: set[PreparedTransaction] = set()
        self.epoch = 0
        self.claim: Claim | None = None
        self.decision: Decision | None = None
        self.deciders: list[str] = []
        """The run of every decision and every claim, in their order."""
        self.has_decisions = has_decisions
        self.has_claims = has_claims
        self.has_fence = has_fence
        self.has_lists = has_lists
        self._count = 0

    def prepare(self, batch_id: int, run_id: str, task: int) -> PreparedTransaction:
        self._count += 1
        transaction = PreparedTransaction(f"{run_id}-{task}", self._count, 0)
        self.open[transaction] = batch_id
        return transaction

    def written(self) -> list[int]:
        """The batches in the output, each as often as it is there; both tasks of one attempt make a batch."""
        attempts: dict[tuple[int, str], int] = {}
        for batch_id, transaction in self.committed:
            attempt = batch_id, transaction.transactional_id.rsplit("-", 1)[0]
            attempts[attempt] = attempts.get(attempt, 0) + 1
        assert set(attempts.values()) <= {2}, f"a batch is torn: {attempts}"
        return sorted(batch_id for batch_id, _ in attempts)


def crash_at(call: int | None) -> Step:
    """Steps of a process that is killed at one of them."""
    left = call

    def step() -> None:
        nonlocal left
        if left == 0:
            raise Crash
        left = None if left is None else left - 1

    return step


class ModelDesk(ClaimedDesk):
    """The desk of one worker, over the model of brokers."""

    def __init__(self, brokers: Brokers, step: Step | None = None, *, is_search_due: bool = False) -> None:
        super().__init__("q")
        self.brokers = brokers
        self._step = step or crash_at(None)
        self._epoch = 0
        self._is_search_due = is_search_due

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
        return self._is_search_due

    def find_open(self, transactions: Sequence[PreparedTransaction]) -> list[PreparedTransaction]:
        self._step()
        return [transaction for transaction in transactions if transaction in self.brokers.open]

    def find_remains(self, decided: Decision | None, names: Iterable[str] = ()) -> list[PreparedTransaction]:
        self._step()
        self._is_search_due = False
        kept = () if decided is None else decided.transactions
        return [each for each in self.brokers.open if each not in kept and each.transactional_id not in [*names]]

    def list_remains(self, remains: Sequence[PreparedTransaction]) -> Sequence[PreparedTransaction]:
        return super().list_remains(remains) if self.brokers.has_lists else remains

    def _look(self) -> None:
        self._read()

    def _take_id(self) -> None:
        self._step()
        self.brokers.epoch += 1
        self._epoch = self.brokers.epoch

    def _read(self) -> None:
        self._step()
        self._claim, self._decision = self.brokers.claim, self.brokers.decision
        if self._claim is not None and not self.brokers.has_claims:
            self._claim = replace(self._claim, runs=self._claim.runs[-1:])  # nothing tells that a run was replaced

    def _write_claim(self, claim: Claim) -> None:
        def apply() -> None:
            self.brokers.claim = claim

        self._write(apply)

    def _write_decision(self, decision: Decision) -> None:
        def apply() -> None:
            if self.brokers.has_decisions:
                self.brokers.decision = decision

        self._write(apply)

    def _write(self, apply: Step) -> None:
        self._step()
        if self.brokers.has_fence and self._epoch != self.brokers.epoch:
            raise WriteError("another worker has taken the desk")
        apply()
        self.brokers.deciders.append(str(self._run_id))
        self._step()


class _Process:
    def __init__(self, body: Callable[[Step], None]) -> None:
        self._turn, self._rest = threading.Semaphore(0), threading.Semaphore(0)
        self.is_over = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(body,))
        self._thread.start()

    def go_on(self) -> None:
        """Let it run to its next step."""
        self._turn.release()
        self._rest.acquire()
        if self.is_over:
            self._thread.join()

    def _run(self, body: Callable[[Step], None]) -> None:
        self._turn.acquire()
        try:
            body(self._step)
        except (Crash, RunReplaced, WriteError):
            pass
        except BaseException as error:
            self.error = error
        self.is_over = True
        self._rest.release()

    def _step(self) -> None:
        self._rest.release()
        self._turn.acquire()


class Schedule:
    """Processes that take steps in the order that `choices` says, and one after the other when it ends."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._choices = list(choices)
        self._processes: list[_Process] = []

    def start(self, body: Callable[[Step], None]) -> None:
        """Add a process; it may be called by one that runs."""
        self._processes.append(_Process(body))

    def run(self) -> None:
        """Run until every process has ended; raises what one of them has raised."""
        while alive := [process for process in self._processes if not process.is_over]:
            choice = self._choices.pop(0) if self._choices else 0
            alive[choice % len(alive)].go_on()
        for process in self._processes:
            if process.error is not None:
                raise process.error
