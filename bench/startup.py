"""The start time of `tailrace start` until it is ready, and its memory when idle.

    python -m bench.startup [--runs 10] [--idle-seconds 3]

The time runs from the start of the process to its ready line, with the files already in the
page cache (two runs before the first are not counted). Writes `docs/benchmarks/startup.json`
and `.md`.
"""

from __future__ import annotations

import argparse
import compileall
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from bench import machine
from bench.broker import TailraceBroker, cpu_seconds
from bench.cache import CHECKOUT

WARM_UPS = 2
READY_GOAL_S = 0.5
IDLE_GOAL_MB = 80


def measure(runs: int, idle_s: float) -> dict[str, Any]:
    """Start and stop the broker `runs` times, and measure the memory of an idle one."""
    ready: list[float] = []
    for number in range(-WARM_UPS, runs):
        broker = TailraceBroker()
        with broker:
            if number >= 0:
                ready.append(broker.ready_after_s)
            status = broker.stop()
        if status != 0:
            raise RuntimeError(f"tailrace start ended with status {status} on SIGTERM")
    with TailraceBroker() as broker:
        cpu_before = cpu_seconds(broker.pid)
        # Being idle is a state without an event to wait for.
        time.sleep(idle_s)
        memory = psutil.Process(broker.pid).memory_info().rss
        idle_cpu_s = cpu_seconds(broker.pid) - cpu_before
    return {
        "ready_s": {"median": round(statistics.median(ready), 4), "runs": [round(value, 4) for value in ready]},
        "idle_rss_mb": round(memory / 1e6, 1),
        "idle_cpu_percent": round(idle_cpu_s / idle_s * 100, 2),
    }


def _page(result: dict[str, Any]) -> str:
    ready = result["ready_s"]
    return f"""# Start-up and idle memory

Written by `{result["command"]}`; every run is in `startup.json`.

| | measured | goal |
| --- | ---: | ---: |
| from start of the process to the ready line, median of {len(ready["runs"])} | {ready["median"] * 1000:.0f} ms \
| under {READY_GOAL_S * 1000:.0f} ms |
| the slowest of them | {max(ready["runs"]) * 1000:.0f} ms | |
| memory of an idle broker (resident) | {result["idle_rss_mb"]:.0f} MB | under {IDLE_GOAL_MB} MB |
| CPU of an idle broker | {result["idle_cpu_percent"]:.1f} % of a core | |

`tailrace start` with an empty data folder, files in the page cache, {WARM_UPS} runs before the first not counted.

## The machine

{machine.table(result["conditions"])}"""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10, help="counted starts (default 10)")
    parser.add_argument("--idle-seconds", type=float, default=3.0, help="seconds of being idle (default 3)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    # Compile like an installed package; a checkout with new modules would compile some of them at each start.
    compileall.compile_dir(CHECKOUT / "src", quiet=1)
    result = {
        "command": machine.command_line("bench.startup", runs=arguments.runs),
        "conditions": machine.conditions("tailrace"),
        **measure(arguments.runs, arguments.idle_seconds),
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "startup.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "startup.md").write_text(_page(result))
    print(f"ready after {result['ready_s']['median'] * 1000:.0f} ms, idle at {result['idle_rss_mb']:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
