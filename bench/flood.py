"""The latency of a well-behaved client beside a flood of clients that do not belong there.

    python -m bench.flood [--rounds 5] [--seconds 10] [--rate 50]

A broker process has a listener with TLS and SCRAM. One client that has logged in sends records, each in a request of
its own, at 100 a second, and waits for each answer; late requests count from when they should have been sent. Another
process sends, in every second round, each of these `rate` times a second: a connection with random bytes, a TLS
handshake that is begun and left open, and a login with a wrong password. Writes `docs/benchmarks/flood.json` and
`flood.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from bench import machine
from bench.broker import TailraceBroker, cpu_seconds
from bench.cache import CHECKOUT
from bench.kafka import free_ports
from bench.tls import make_keys
from tailrace.aio import Producer
from tailrace.client.address import Address
from tailrace.client.connection import Connection
from tailrace.client.error import ClientError
from tailrace.client.security.login import ScramLogin
from tailrace.client.security.security import Security

REQUESTS_PER_S = 100
HALF_OPEN_MAX = 500
_HELLO_START = bytes.fromhex("1603010200010001fc0303")
"""The beginning of a ClientHello, of which the rest never comes."""


# --- the flood


def flood(port: int, ca: str, rate: int, is_on: Any) -> None:
    """Send what does not belong there while the event is set; the parent ends this process."""
    os.nice(5)
    asyncio.run(_flood(port, ca, rate, is_on))


async def _flood(port: int, ca: str, rate: int, is_on: Any) -> None:
    held: list[asyncio.StreamWriter] = []
    # One login for all attempts, so that the password is stretched once and the broker has most of the work.
    context = ssl.create_default_context(cafile=ca)
    security = Security(lambda: context, ScramLogin("SCRAM-SHA-256", "mallory", "guess"))
    kinds: tuple[Callable[[], Awaitable[None]], ...] = (
        lambda: _garbage(port),
        lambda: _half_open(port, held),
        lambda: _wrong_password(port, security),
    )
    tasks: set[asyncio.Task[None]] = set()
    while True:
        if not is_on.is_set():
            while held:
                held.pop().close()
            await asyncio.sleep(0.05)
            continue
        for kind in kinds:
            task = asyncio.ensure_future(_quietly(kind))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(1 / rate)


async def _quietly(kind: Callable[[], Awaitable[None]]) -> None:
    with contextlib.suppress(OSError, ClientError, asyncio.IncompleteReadError, TimeoutError):
        await kind()


async def _garbage(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(os.urandom(200))
    await reader.read()
    writer.close()


async def _half_open(port: int, held: list[asyncio.StreamWriter]) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_HELLO_START)
    held.append(writer)
    if len(held) > HALF_OPEN_MAX:
        held.pop(0).close()


async def _wrong_password(port: int, security: Security) -> None:
    connection = await Connection.open(Address("127.0.0.1", port), security=security)
    await connection.close()


# --- the client that belongs there


async def measure_latency(settings: Mapping[str, str], seconds: float) -> list[float]:
    """Return the milliseconds from when each request should have been sent until it was acknowledged."""
    found: list[float] = []
    async with Producer(config=dict(settings)) as producer:
        await producer.send_and_wait("t", b"warm")
        started = time.perf_counter()
        for number in range(int(seconds * REQUESTS_PER_S)):
            due = started + number / REQUESTS_PER_S
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await producer.send_and_wait("t", b"x" * 100)
            found.append((time.perf_counter() - due) * 1000)
    return found


def quantile(values: list[float], share: float) -> float:
    """Return the value below which that share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


# --- the run


def start_broker(folder: Path, stack: contextlib.ExitStack) -> tuple[TailraceBroker, int]:
    """Start a broker with a listener for users; return it and the listener's port."""
    make_keys(folder)
    (folder / "password").write_text("secret\n")
    plain, secure = free_ports(2)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{secure}",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.location": str(folder / "keys.pem"),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    broker = stack.enter_context(TailraceBroker(settings))
    program = [sys.executable, "-m", "tailrace", "user", "add", "alice", "--password-file", str(folder / "password")]
    subprocess.run([*program, "--bootstrap-server", f"127.0.0.1:{plain}"], check=True, capture_output=True)
    return broker, secure


def run(rounds: int, seconds: float, rate: int) -> list[dict[str, Any]]:
    """Measure in turns, without and with the flood; the first pair is not counted."""
    results: list[dict[str, Any]] = []
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker, port = start_broker(folder, stack)
        settings = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "secret",
            "ssl.truststore.location": str(folder / "ca.pem"),
            "linger.ms": "0",
        }
        is_on = context.Event()
        flooder = context.Process(target=flood, args=(port, str(folder / "ca.pem"), rate, is_on), daemon=True)
        flooder.start()
        stack.callback(flooder.kill)
        for number in range(-1, rounds):
            for is_flooded in (False, True):
                (is_on.set if is_flooded else is_on.clear)()
                time.sleep(1)
                before = cpu_seconds(broker.pid)
                latencies = asyncio.run(measure_latency(settings, seconds))
                figures = {
                    "is_flooded": is_flooded,
                    "p50_ms": round(quantile(latencies, 0.5), 2),
                    "p99_ms": round(quantile(latencies, 0.99), 2),
                    "broker_cores": round((cpu_seconds(broker.pid) - before) / seconds, 2),
                }
                print(f"round {number + 1}: {figures}", flush=True)
                if number >= 0:
                    results.append(figures)
    return results


def page(result: Mapping[str, Any]) -> str:
    """Return the report."""
    lines = []
    p99: dict[bool, float] = {}
    for is_flooded in (False, True):
        rows = [row for row in result["results"] if row["is_flooded"] is is_flooded]
        p50, p99[is_flooded], cores = (
            statistics.median(row[name] for row in rows) for name in ("p50_ms", "p99_ms", "broker_cores")
        )
        lines.append(f"| {'flooded' if is_flooded else 'quiet'} | {p50:.2f} | {p99[is_flooded]:.2f} | {cores:.2f} |")
    return "\n".join(
        [
            "# A flood of clients that do not belong there",
            "",
            f"Written by `{result['command']}`; the figures of every round are in `flood.json`.",
            "",
            f"A client that has logged in by SCRAM over TLS sends {REQUESTS_PER_S} records a second, each in a request",
            "of its own. Beside it, in every second round, another process sends each of these "
            f"{result['rate']} times a second: a",
            "connection with random bytes, a TLS handshake that is begun and left open (up to "
            f"{HALF_OPEN_MAX} of them), and a login",
            "with a wrong password over a new TLS connection. The flood runs on the same cores as broker and client.",
            f"Medians of {result['rounds']} rounds of {result['seconds']:g} s.",
            "",
            "| | p50 ms | p99 ms | cores of the broker |",
            "| --- | ---: | ---: | ---: |",
            *lines,
            "",
            f"The p99 beside the flood is {p99[True] / p99[False]:.1f} times the quiet one.",
            "",
            "## The machine",
            "",
            machine.table(result["conditions"]),
        ]
    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.flood", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default 5)")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a measurement (default 10)")
    parser.add_argument("--rate", type=int, default=50, help="bad clients of each kind in a second (default 50)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace")
    results = run(arguments.rounds, arguments.seconds, arguments.rate)
    conditions["load after the run"] = machine.load()
    result = {
        "command": machine.command_line(
            "bench.flood", rounds=arguments.rounds, seconds=f"{arguments.seconds:g}", rate=arguments.rate
        ),
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "rate": arguments.rate,
        "conditions": conditions,
        "results": results,
    }
    (arguments.output / "flood.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "flood.md").write_text(page(result))
    print(f"written: flood.json, flood.md in {arguments.output.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
