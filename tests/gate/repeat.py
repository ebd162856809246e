"""`.ci/run` again and again, each time on a fresh clone, with a row of docs/benchmarks/first_run.md for each run.

    python -m tests.gate.repeat --runs 10 --busy 2 --uptime-h 4

`--uptime-h` runs the gate in a time namespace, where the machine has been up for that many hours; it needs root on
Linux.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.gate.lane import CHECKOUT

HEAD = """\
| date | commit | machine up for | beside it | seed | result | unsteady tests | `make test` | all |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""
RUN_LIMIT_S = 5_400
SPIN = "while True: pass"


class Log(NamedTuple):
    """What the log of one run of `.ci/run` says of it."""

    seed: str
    result: str
    unsteady: list[str]
    test_s: str
    all_s: str

    @classmethod
    def read(cls, text: str) -> "Log":
        """Find the parts of a row in the log; a dash stands for what the run did not come to."""

        def last(pattern: str) -> str:
            found: list[str] = re.findall(pattern, text, re.MULTILINE)
            return found[-1] if found else "-"

        failed = sorted(set(re.findall(r"^FAILED (\S+)", text, re.MULTILINE)))
        result = "; ".join([last(r"^(\d+ passed, \d+ failed, \d+ skipped)"), *failed])
        unsteady = sorted(set(re.findall(r"^unsteady: (.*)", text, re.MULTILINE)))
        return cls(
            last(r"--randomly-seed=(\d+)"), result, unsteady, last(r"^=== test: (\d+) s"), last(r"^=== all: (\d+) s")
        )


def run_once(folder: Path, revision: str, uptime_h: float) -> tuple[int, Path]:
    """Run the gate on a new clone of a revision; return its status and its log."""
    project, log = folder / "project", folder / "log"
    shutil.rmtree(project, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(project)], check=True)
    subprocess.run(["git", "-C", str(project), "checkout", "--quiet", revision], check=True)
    command = ["bash", ".ci/run"]
    if uptime_h:
        offset_s = str(int(max(0.0, uptime_h * 3600 - time.clock_gettime(time.CLOCK_BOOTTIME))))
        command = ["unshare", "--time", "--fork", "--boottime", offset_s, "--monotonic", offset_s, *command]
    with log.open("w") as out:
        gate = subprocess.Popen(
            command,
            cwd=project,
            env={**os.environ, "CI": "true"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = gate.wait(RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(gate.pid, signal.SIGKILL)
            status = gate.wait()
    shutil.rmtree(project, ignore_errors=True)
    return status, log


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep processes busy beside the runs."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def row(log: Log, commit: str, beside: str, uptime_h: float) -> str:
    """Return the line of the table."""
    up_h = max(uptime_h, time.clock_gettime(time.CLOCK_BOOTTIME) / 3600)
    date = time.strftime("%Y-%m-%d", time.gmtime())
    cells = [date, commit, f"{up_h:.1f} h", beside, log.seed, log.result]
    return "| " + " | ".join([*cells, ", ".join(log.unsteady) or "none", f"{log.test_s} s", f"{log.all_s} s"]) + " |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the gate as often as asked; return 1 if a run failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.repeat", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="how often (%(default)s)")
    parser.add_argument("--busy", type=int, default=0, help="processes that keep a core busy meanwhile (%(default)s)")
    parser.add_argument("--uptime-h", type=float, default=0.0, help="hours that the machine seems to have been up")
    parser.add_argument("--revision", default="HEAD", help="the commit (%(default)s)")
    parser.add_argument("--beside", help="what else runs on the machine, for the table")
    options = parser.parse_args(arguments)
    commit = subprocess.check_output(["git", "rev-parse", "--short", options.revision], cwd=CHECKOUT, text=True).strip()
    beside = options.beside or (f"{options.busy} busy processes" if options.busy else "nothing")
    failed = 0
    print(HEAD, flush=True)
    with busy(options.busy):
        for _ in range(options.runs):
            folder = Path(tempfile.mkdtemp(prefix="gate-run-"))
            status, log = run_once(folder, commit, options.uptime_h)
            print(row(Log.read(log.read_text(errors="replace")), commit, beside, options.uptime_h), flush=True)
            if status:
                failed += 1
                print(f"failed with status {status}; its log: {log}", file=sys.stderr, flush=True)
            else:
                shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
