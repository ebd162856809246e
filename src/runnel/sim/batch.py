"""Many seeds in one run, in this process or in several, and what came of all of them together."""

import gc
import multiprocessing
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, NoReturn, TextIO

from runnel.sim.simulation import Outcome
from runnel.sim.world import ACKNOWLEDGED

_TELL_EVERY_S = 1.0
_TELL_A_FILE_EVERY_S = 60.0

SEED_CPU_S_MAX = 120.0
"""How much one seed may cost, which takes a second or two. One that goes round in a step would never end."""

Play = Callable[[int], Outcome]
"""Runs one seed."""


class Result(NamedTuple):
    """What is kept of one seed; of one that failed, all that was noted."""

    seed: int
    problems: list[str]
    notes: list[str]
    seconds: float
    step_count: int
    counts: dict[str, int]
    cpu_s: float


@dataclass(slots=True)
class Total:
    """What came of all seeds so far."""

    seed_count: int = 0
    seconds: float = 0.0
    step_count: int = 0
    cpu_s: float = 0.0
    acknowledged_min: float = inf
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Take one more into account."""
        self.seed_count += 1
        self.seconds += result.seconds
        self.step_count += result.step_count
        self.cpu_s += result.cpu_s
        self.counts.update(result.counts)
        acknowledged = result.counts.get(ACKNOWLEDGED, 0)
        self.acknowledged_min = min(
            acknowledged, acknowledged if self.acknowledged_min is None else self.acknowledged_min
        )
        if result.problems:
            self.failures.append(result)

    def table(self) -> str:
        """Everything that was counted, as a table in Markdown."""
        rows: list[tuple[str, object]] = [
            ("seeds", f"{self.seed_count:,}"),
            ("seeds that failed", ", ".join(str(result.seed) for result in self.failures) or "none"),
            ("virtual time", f"{self.seconds / 3600:.1f} h"),
            ("steps", f"{self.step_count:,}"),
            ("CPU time", f"{self.cpu_s:.0f} s, {self.cpu_s / max(self.seed_count, 1):.2f} s a seed"),
            ("fewest records acknowledged in a seed", self.acknowledged_min),
            *(
                (name, f"{count:,}")
                for name, count in sorted(self.counts.items(), key=lambda each: (-each[1], each[0]))
            ),
        ]
        return "\n".join(["| what | how much |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def run_batch(
    seeds: range,
    play: Play,
    *,
    jobs: int = 1,
    keeps_going: bool = False,
    on_failure: Callable[[Result], None] | None = None,
    progress: TextIO | None = sys.stderr,
) -> Total:
    """Run seeds until one fails, or all of them, or somebody interrupts it.

    `on_failure` is told at once of each that fails.
    """
    total, line = Total(), _Line(len(seeds), progress)
    with suppress(KeyboardInterrupt):
        for result in _results(seeds, play, jobs):
            total.add(result)
            line.tell(total)
            if result.problems and on_failure is not None:
                on_failure(result)
            if result.problems and not keeps_going:
                break
    line.end(total)
    return total


def _results(seeds: Iterable[int], play: Play, jobs: int) -> Iterator[Result]:
    if jobs == 1:
        yield from (_Once(play)(seed) for seed in seeds)
        return
    # Forked, so that workers have the same hashes of strings, and nothing is imported again.
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(_Once(play), seeds)


class NeverEnds(KeyboardInterrupt):
    """A seed has cost too much. Like what a user interrupts, nothing in the simulation holds it."""


@contextmanager
def _limited(cpu_s: float) -> Iterator[None]:
    def end(*_: object) -> NoReturn:
        raise NeverEnds

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class _Once:
    """Runs one seed without the collector of garbage in between, whose moments are none of the seed's."""

    def __init__(self, play: Play) -> None:
        self._play = play

    def __call__(self, seed: int) -> Result:
        was_enabled = gc.isenabled()
        gc.disable()
        begun_s = time.process_time()
        try:
            with _limited(SEED_CPU_S_MAX):
                outcome = self._play(seed)
        except NeverEnds as error:
            place = "".join(traceback.format_tb(error.__traceback__)[-2:-1])
            return Result(seed, [f"it does not end: {place}"], [], 0, 0, {}, SEED_CPU_S_MAX)
        finally:
            if was_enabled:
                gc.enable()
        cpu_s = time.process_time() - begun_s
        notes = outcome.notes if outcome.problems else []
        result = Result(seed, outcome.problems, notes, outcome.seconds, outcome.step_count, dict(outcome.counts), cpu_s)
        del outcome
        gc.collect()
        return result


class _Line:
    """Says how far it is: again and again in one line of a terminal, and now and then in a file."""

    def __init__(self, count: int, file: TextIO | None) -> None:
        self._count = count
        self._file = file
        self._is_terminal = file is not None and file.isatty()
        self._begun_s = self._told_s = time.monotonic()

    def tell(self, total: Total) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= (_TELL_EVERY_S if self._is_terminal else _TELL_A_FILE_EVERY_S):
            self._told_s = now_s
            self._write(total, "\r" if self._is_terminal else "\n")

    def end(self, total: Total) -> None:
        self._write(total, "\n")

    def _write(self, total: Total, end: str) -> None:
        if self._file is None:
            return
        rate = total.seed_count / max(time.monotonic() - self._begun_s, 1e-9)
        text = f"{total.seed_count}/{self._count} seeds, {rate:.1f}/s, {total.seconds / 3600:.1f} virtual hours"
        self._file.write(f"{text}, {total.counts[ACKNOWLEDGED]} acknowledged, {len(total.failures)} failed{end}")
        self._file.flush()
