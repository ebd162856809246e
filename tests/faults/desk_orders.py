"""Drivers of one query that run at the same time, in random orders of their steps, over a model of brokers.

Each driver is a process with three Python workers that take turns at committing. Its tasks fail, its batches may be
empty, its query is restarted in the same process when a commit fails, and it may be killed at any step. In the end one
driver runs alone. Every batch must be in the output once, nothing may stay open, and no run may decide after another
one has replaced it.

    python -m tests.faults.desk_orders --orders 20000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator

from tests.unit.spark.desk_model import Brokers, Crash, ModelDesk, Schedule, Step, crash_at

from tailrace.client.transaction.state import PreparedTransaction
from tailrace.spark.batch_end import abort_batch, commit_batch
from tailrace.spark.claim import RunReplaced
from tailrace.spark.decision import Offer
from tailrace.spark.error import WriteError

BATCH_COUNT = 3
EMPTY_BATCH = 1  # in some queries this batch has no rows
STEP_COUNT_MAX = 200


class Checkpoint:
    """How many batches Spark has noted as done; drivers on one checkpoint share it."""

    def __init__(self, *, has_empty_batch: bool) -> None:
        self.done = 0
        self.rows = [batch_id for batch_id in range(BATCH_COUNT) if not (has_empty_batch and batch_id == EMPTY_BATCH)]


class Driver:
    """One process: its workers outlive a run of the query, which is restarted when it fails."""

    def __init__(self, brokers: Brokers, checkpoint: Checkpoint, name: str, chance: random.Random, step: Step) -> None:
        self._brokers = brokers
        self._checkpoint = checkpoint
        self._name = name
        self._chance = chance
        self._step = step
        self._desks = [self._new_desk() for _ in range(3)]

    def _new_desk(self) -> ModelDesk:
        return ModelDesk(self._brokers, self._step, is_search_due=self._chance.random() < 0.5)

    def run(self, restart_count: int = 2) -> None:
        """Run the query, and restart it when it fails for a reason that passes."""
        for number in range(restart_count + 1):
            try:
                self._run_query(f"{self._name}.{number}")
                return
            except RunReplaced:
                raise
            except WriteError:
                if number == restart_count:
                    raise

    def _run_query(self, run_id: str) -> None:
        batch_id = self._checkpoint.done
        while batch_id < BATCH_COUNT:
            self._run_batch(run_id, batch_id)
            self._step()
            if self._checkpoint.done > batch_id:
                raise Crash  # Spark finds that another driver has noted the batch
            batch_id = self._checkpoint.done = batch_id + 1

    def _run_batch(self, run_id: str, batch_id: int) -> None:
        offered: list[PreparedTransaction] = []
        has_stray = self._chance.random() < 0.2
        if batch_id in self._checkpoint.rows:
            for task in range(2):
                offered.append(self._brokers.prepare(batch_id, run_id, task))
                self._step()
            if has_stray:  # an attempt that Spark has given up
                self._brokers.prepare(batch_id, f"{run_id}-stray", 0)
        index = self._chance.randrange(3)
        desk = self._desks[index]
        self._desks[index] = self._new_desk()  # a desk that raises is not kept
        if offered and self._chance.random() < 0.1:
            abort_batch(desk, Offer("q", run_id, batch_id, (offered[0],), had_failures=True, is_complete=False))
            raise WriteError("a task has failed")
        commit_batch(desk, Offer("q", run_id, batch_id, tuple(offered), had_failures=has_stray))
        self._desks[index] = desk


def run_drivers(brokers: Brokers, seed: int) -> None:
    """Let drivers of one query run at the same time in an order that the seed gives, and then one alone to the end."""
    chance = random.Random(seed)
    checkpoint = Checkpoint(has_empty_batch=chance.random() < 0.3)
    choice_max = chance.choice([2, 6])
    schedule = Schedule([chance.randrange(choice_max) for _ in range(chance.randint(0, STEP_COUNT_MAX))])
    for number in range(chance.randint(1, 4)):
        kill_at = chance.choice([None, chance.randrange(60)])
        schedule.start(_process(brokers, checkpoint, f"r{number}", chance.getrandbits(32), kill_at))
    schedule.run()
    Driver(brokers, checkpoint, "last", _never(), crash_at(None)).run()
    commit_batch(ModelDesk(brokers), Offer("q", "search", BATCH_COUNT, (), had_failures=True))
    check(brokers, checkpoint)


def _process(
    brokers: Brokers, checkpoint: Checkpoint, name: str, seed: int, kill_at: int | None
) -> Callable[[Step], None]:
    def body(step: Step) -> None:
        kill = crash_at(kill_at)

        def step_or_die() -> None:
            step()
            kill()

        Driver(brokers, checkpoint, name, random.Random(seed), step_or_die).run()

    return body


def _never() -> random.Random:
    """Chances of which none comes true."""

    class Never(random.Random):
        def random(self) -> float:
            return 1.0

        def randrange(self, *_: int) -> int:  # type: ignore[override]
            return 0

    return Never()


def check(brokers: Brokers, checkpoint: Checkpoint) -> None:
    """Raise `AssertionError` for what is not as it must be."""
    written = brokers.written()
    assert written == checkpoint.rows, f"batches {written} are in the output"
    assert not brokers.open, f"{len(brokers.open)} transactions stay open"
    turns = [*_turns(brokers.deciders)]
    assert len(turns) == len(set(turns)), f"a run that was replaced has decided: {turns}"


def _turns(deciders: list[str]) -> Iterator[str]:
    for index, run_id in enumerate(deciders):
        if index == 0 or run_id != deciders[index - 1]:
            yield run_id


def main() -> int:
    """Run it as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--orders", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", choices=("claims", "fence", "decisions", "lists"), help="switch one safeguard off")
    options = parser.parse_args()
    found: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.orders):
        try:
            run_drivers(Brokers(**({f"has_{options.without}": False} if options.without else {})), seed)
        except AssertionError as error:
            found[str(error).split(":")[0]] += 1
            if not options.without:
                print(f"seed {seed}: {error}")
    print(f"{options.orders} orders, {found.total()} went wrong: {dict(found)}")
    return 1 if bool(found) is not bool(options.without) else 0


if __name__ == "__main__":
    sys.exit(main())
