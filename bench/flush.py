"""The cost of acknowledging only flushed records, with and without grouping flushes.

    python -m bench.flush [--seconds 5] [--producers 1 32]

Producers send one small batch after the other with acks=all and wait for each reply: to a topic with
flush.messages=1, whose flushes are grouped, to one with the defaults, which does not flush, and for comparison with
one flush for each batch, one after the other, like a broker that does not group. All write to one partition. Writes
`docs/benchmarks/flush.json` and `.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import machine
from bench.cache import CHECKOUT
from tailrace.base.sentinel import ACKS_ALL
from tailrace.config.broker import BrokerConfig
from tailrace.machines.controller.topic import NewTopic
from tailrace.records.batch import read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.runtime.broker import Broker
from tailrace.runtime.opener import start_broker
from tailrace.runtime.partition import Partition

RECORD_BYTES = 1000
WAYS = ("grouped", "one by one", "not flushed")


class Load:
    """Producers that wait for each acknowledgement, in the broker's process."""

    def __init__(self, broker: Broker, partition: Partition, way: str) -> None:
        self._broker = broker
        self._partition = partition
        self._way = way
        self._one_by_one = asyncio.Lock()
        self.acknowledged_count = 0
        self.waits_ms: list[float] = []

    async def produce_until(self, end: float) -> None:
        """Run one producer: append, wait for the disk, repeat."""
        while time.perf_counter() < end:
            started = time.perf_counter()
            builder = BatchBuilder(Compression.NONE)
            builder.append(self._broker.clock.now_ms(), None, b"x" * RECORD_BYTES)
            batch = memoryview(bytearray(builder.build()))
            if self._way == "one by one":
                async with self._one_by_one:
                    await self._append_and_flush(batch)
            else:
                await self._append(batch)
            self.acknowledged_count += 1
            self.waits_ms.append((time.perf_counter() - started) * 1e3)

    async def _append(self, batch: memoryview) -> None:
        self._partition.append(batch, read_header(batch), ACKS_ALL, 0)
        end = self._partition.flush_end
        if end is None:
            await asyncio.sleep(0)
        elif await asyncio.shield(end) is not None:
            raise RuntimeError("the flush failed")

    async def _append_and_flush(self, batch: memoryview) -> None:
        self._partition.append(batch, read_header(batch), ACKS_ALL, 0)
        flush = self._partition.log.begin_flush()
        await asyncio.get_running_loop().run_in_executor(self._broker.worker, flush.run)
        self._partition.log.end_flush(flush)


async def _measure(folder: Path, producers: int, way: str, seconds: float) -> dict[str, Any]:
    broker = await start_broker(BrokerConfig({"node.id": "1", "log.dirs": str(folder)}))
    try:
        configs = {"flush.messages": "1"} if way == "grouped" else {}
        await broker.controller.create_topic(NewTopic("t", 1, 1, configs=configs), broker.topic_defaults)
        load = Load(broker, broker.replicas.get("t", 0), way)
        started = time.perf_counter()
        await asyncio.gather(*[load.produce_until(started + seconds) for _ in range(producers)])
        took_s = time.perf_counter() - started
    finally:
        await broker.stop()
    waits = sorted(load.waits_ms)
    return {
        "producers": producers,
        "way": way,
        "acks_per_s": round(load.acknowledged_count / took_s, 1),
        "wait_ms_median": round(waits[len(waits) // 2], 3),
        "wait_ms_p99": round(waits[int(len(waits) * 0.99)], 3),
    }


def _page(result: dict[str, Any]) -> str:
    rows = "".join(
        f"| {row['producers']} | {row['way']} | {row['acks_per_s']:,.0f} | {row['wait_ms_median']:.2f} ms"
        f" | {row['wait_ms_p99']:.2f} ms |\n"
        for row in result["results"]
    )
    return f"""# Acknowledging what is on the disk

Written by `{result["command"]}`; the figures are in `flush.json`.

Producers send a record of {RECORD_BYTES:,} bytes with acks=all to one partition, each waiting for its reply before
the next, in the process of the broker, so that neither sockets nor a client's CPU are in the figures.
*Grouped* is a topic with `flush.messages=1`: a producer that sends while a flush runs is acknowledged by the
next. *One by one* is a flush for each batch, one after the other. *Not flushed* is the default,
where the operating system decides when bytes reach the disk. A disk that is shared with other work
makes all flushes slower; the ways took turns.

| producers | | acks/s | wait, median | wait, 99 % |
| ---: | --- | ---: | ---: | ---: |
{rows}
## The machine

{machine.table(result["conditions"])}"""


def measure(producers: Sequence[int], seconds: float) -> list[dict[str, Any]]:
    """Measure every way with every number of producers, each in its own folder."""
    results = []
    for count in producers:
        for way in WAYS:
            folder = Path(tempfile.mkdtemp(prefix="tailrace-flush-"))
            try:
                results.append(asyncio.run(_measure(folder, count, way, seconds)))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            print(json.dumps(results[-1]), flush=True)
    return results


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.flush", description=__doc__.splitlines()[0])
    parser.add_argument("--producers", type=int, nargs="+", default=[1, 32], help="concurrent producers (default 1 32)")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds for each measurement (default 5)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    result = {
        "command": f"python -m bench.flush --seconds {arguments.seconds:g}",
        "conditions": machine.conditions("tailrace"),
        "results": measure(arguments.producers, arguments.seconds),
    }
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "flush.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "flush.md").write_text(_page(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
