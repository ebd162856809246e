"""Crash or fail at a file-system call of a workload, start again, and hold what is there against the promises.

A case is a script (0 and 1 have every operation, the others are drawn), a fault, the number of the
call it happens at, the number of the call at which the start after it crashes again (0 for not
at all), and a seed for everything that is drawn: what survives, where writes are torn. The same
case does the same thing again. After the fault the rest of the script runs, the power fails
once more, and the folder is stopped and started cleanly.

    python -m tests.faults.crash --cases 100000 --seed 1
    python -m tests.faults.crash --case 0/power/17/0/5
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
import time
from collections import Counter
from contextlib import suppress
from random import Random
from typing import NamedTuple

from tests.faults.crash_ledger import Violation
from tests.faults.crash_script import script
from tests.faults.crash_world import PATH, World

from tailrace.storage.error import StorageError
from tailrace.storage.memory_fs import Crash, Hook, MemoryFileSystem

# A kill keeps what was written, a power loss what was synced and any part of the rest. An error
# strikes one call; a broken disk fails every call from one on, a full one every call that takes room.
FAULTS = ("kill", "power", "eio", "enospc", "broken", "full")
_GROWING = frozenset({"write_at", "write_file", "create", "make_directory", "rename"})


class Case(NamedTuple):
    """All that it takes to do it again."""

    script: int
    fault: str
    call: int
    second_call: int = 0
    seed: int = 0

    def __str__(self) -> str:
        return "/".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Case:
        number, fault, call, second_call, seed = text.split("/")
        return cls(int(number), fault, int(call), int(second_call), int(seed))


class Failure(Exception):
    """A case that broke a promise, and the command that shows it again."""

    def __init__(self, case: Case, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}\nagain: python -m tests.faults.crash --case {case}")


def run_case(case: Case) -> int:
    """Run one case. Returns how many calls the first life made; raises `Failure`."""
    try:
        return _Run(case).run()
    except Exception as error:
        raise Failure(case, error) from error


class _Run:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.fs = MemoryFileSystem(Random(str(case)))
        self.fs.make_directory(PATH)
        self.fs.sync_directory("/")
        self.fs.call_count = 0
        self.world = World(self.fs)
        self.steps = script(case.script)
        self.is_lossy = False
        self.is_on_disk = False

    def run(self) -> int:
        self.fs.hook = self._hook()
        done = self._live(0)
        call_count = self.fs.call_count
        fault = self.case.fault
        self._end(fault if fault in ("kill", "power") else ("kill", "power")[self.case.seed % 2])
        if self.case.second_call:
            self.fs.hook = self._crash_at(self.case.second_call)
            with suppress(Crash):
                self.world.start()
            self._end("power" if self.case.seed % 3 else "kill")
        self._recover()
        self._live(done + 1)
        self.world.check()
        self._end("power")
        self._recover()
        self.world.reopen()
        return call_count

    def _live(self, first: int) -> int:
        """Run steps from one on until something ends the process. Returns the step that it was in."""
        number = first
        try:
            if self.world.log_dir is None:
                self.world.start()
            for number in range(first, len(self.steps)):
                self.world.run(self.steps[number])
        except (Crash, StorageError):
            if first:
                raise Violation("a crash without a reason") from None
        return number

    def _end(self, kind: str) -> None:
        self.world.log_dir = None
        if kind == "kill" and self.case.fault != "kill" and not self.is_on_disk:
            # A failed sync may have dropped what the page cache had.
            self.is_lossy = True
        if kind == "power":
            self.fs.lose_power()
            self.is_lossy = self.is_on_disk = True
        else:
            self.fs.kill()
            self.is_on_disk = False

    def _recover(self) -> None:
        self.world.recover(is_lossy=self.is_lossy, is_on_disk=self.is_on_disk)
        self.is_lossy = self.is_on_disk = False

    def _hook(self) -> Hook:
        case = self.case
        if case.fault in ("kill", "power"):
            return self._crash_at(case.call)
        code = errno.ENOSPC if case.fault in ("enospc", "full") else errno.EIO
        is_lasting = case.fault in ("broken", "full")

        def fail(call: int, operation: str, path: str) -> OSError | None:
            is_hit = call >= case.call if is_lasting else call == case.call
            if case.fault == "full" and operation not in _GROWING:
                is_hit = False
            return OSError(code, os.strerror(code)) if is_hit else None

        return fail

    def _crash_at(self, number: int) -> Hook:
        return lambda call, operation, path: Crash() if call == number else None


def call_count(number: int) -> int:
    """How many calls a script makes when nothing happens to it."""
    return run_case(Case(number, "kill", 0))


def cases(random: Random, count: int, first_script: int = 0) -> list[Case]:
    """Every call of one script after the other, each with a fault drawn for it, until there are so many."""
    drawn: list[Case] = []
    number = first_script
    while len(drawn) < count:
        for call in range(1, call_count(number) + 1):
            second_call = random.choice((0, 0, random.randint(1, 80)))
            drawn.append(Case(number, random.choice(FAULTS), call, second_call, random.randrange(1 << 30)))
        number += 1
    return drawn[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--case", type=Case.parse, help="run this one and nothing else")
    parser.add_argument("--script", type=int, default=0, help="begin with this one")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many")
    given = parser.parse_args()
    logging.getLogger("tailrace").setLevel(logging.CRITICAL)
    if given.case:
        logging.getLogger("tailrace").setLevel(logging.WARNING)
        run_case(given.case)
        print("it holds")
        return
    sys.exit(_run_many(given.seed, given.cases, given.failures, given.script))


def _run_many(seed: int, count: int, failures_max: int, first_script: int) -> int:
    random = Random(seed)
    started = shown = time.monotonic()
    done: Counter[str] = Counter()
    failures = 0
    number = first_script
    print(f"seed {seed}", flush=True)
    while done.total() < count:
        for case in cases(random, call_count(number), number)[: count - done.total()]:
            try:
                run_case(case)
            except Failure as failure:
                failures += 1
                print(failure, flush=True)
                if failures >= failures_max:
                    return 1
            done[case.fault] += 1
            if time.monotonic() - shown > 0.5 and sys.stderr.isatty():
                shown = time.monotonic()
                print(f"\r{done.total()}/{count} cases, script {number}", end="", file=sys.stderr, flush=True)
        number += 1
    taken_s = time.monotonic() - started
    print(
        f"{done.total()} cases of {number - first_script} scripts in {taken_s:.0f} s, {failures} failures: {dict(done)}"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    main()
