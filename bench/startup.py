"""How long `runnel start` takes to be ready, and how much memory it holds when idle.

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
from bench.broker import RunnelBroker, cpu_seconds
from bench.cache import CHECKOUT

WARM_UPS = 2
READY_GOAL_S = 0.5
IDLE_GOAL_MB = 80


def measure(runs: int, idle_s: float) -> dict[str, Any]:
    """Start and stop the broker that often; look at the memory of one that idles."""
    ready: list[float] = []
    for number in range(-WARM_UPS, runs):
        broker = RunnelBroker()
        with broker:
            if number >= 0:
                ready.append(broker.ready_after_s)
            status = broker.stop()
        if status != 0:
            raise RuntimeError(f"runnel start ended with status {status} on SIGTERM")
    with RunnelBroker() as broker:
        cpu_before = cpu_seconds(broker.pid)
        # Idle is a state that lasts; there is no event to wait for.
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

`runnel start` with an empty data folder, files in the page cache, {WARM_UPS} runs before the first not counted.

## The machine

{machine.table(result["conditions"])}"""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10, help="counted starts (default 10)")
    parser.add_argument("--idle-seconds", type=float, default=3.0, help="how long the broker idles (default 3)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="where the results go")
    arguments = parser.parse_args()
    # As an installed package is; a checkout whose modules are new would compile some of them at each start.
    compileall.compile_dir(CHECKOUT / "src", quiet=1)
    result = {
        "command": machine.command_line("bench.startup", runs=arguments.runs),
        "conditions": machine.conditions("runnel"),
        **measure(arguments.runs, arguments.idle_seconds),
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "startup.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "startup.md").write_text(_page(result))
    print(f"ready after {result['ready_s']['median'] * 1000:.0f} ms, idle at {result['idle_rss_mb']:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
