"""Runs of many seeds, in one process or several, and their combined results."""

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

from tailrace.sim.simulation import Outcome
from tailrace.sim.world import ACKNOWLEDGED

_TELL_EVERY_S = 1.0
_TELL_A_FILE_EVERY_S = 60.0

SEED_CPU_S_MAX = 120.0
"""The CPU time limit of one seed, which usually takes a second or two. It ends a seed that loops in one step."""

Play = Callable[[int], Outcome]
"""A function that runs one seed."""


class Result(NamedTuple):
    """The result of one seed; for a failed seed, with all notes."""

    seed: int
    problems: list[str]
    notes: list[str]
    seconds: float
    step_count: int
    counts: dict[str, int]
    cpu_s: float


@dataclass(slots=True)
class Total:
    """The combined results of all seeds so far."""

    seed_count: int = 0
    seconds: float = 0.0
    step_count: int = 0
    cpu_s: float = 0.0
    acknowledged_min: float = inf
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Add the result of a seed."""
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
        """Return all counts as a Markdown table."""
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
    """Run seeds until one fails, all are done, or the user interrupts.

    `on_failure` is called at once for each failed seed.
    """
    total, line = Total(), _Line(len(seeds), progress)
    with suppress(KeyboardInterrupt), _program_kept():
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
    # Forked, so that workers have the same string hashes, and modules are not imported again.
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(_Once(play), seeds)


class NeverEnds(KeyboardInterrupt):
    """A seed exceeded its CPU time. Like a user's interrupt, it passes through the simulation."""


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


@contextmanager
def _program_kept() -> Iterator[None]:
    """Keep what is there before the first seed, such as modules, out of the collection of garbage after each seed."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _Once:
    """Runs one seed with the garbage collector off, because its timing does not depend on the seed."""

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
            problem = f"the seed exceeded {SEED_CPU_S_MAX:g} s of CPU time: {place}"
            return Result(seed, [problem], [], 0, 0, {}, SEED_CPU_S_MAX)
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
    """Prints progress: often on one line of a terminal, rarely to a file."""

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
