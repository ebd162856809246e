"""The schema registry with many schemas: registrations and lookups a second, start and memory.

    python -m bench.registry [--schemas 10000] [--subjects 1000] [--lookups 20000] [--clients 8]

Registers that many Avro schemas over HTTP, reads them back by id from several connections, and starts a second registry
that reads them all from the topic. Broker, registries and clients are processes of one machine, so the CPU time of a
request says more than the number of requests a second. Writes `docs/benchmarks/registry.json` and `.md`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench import machine
from bench.broker import TailraceBroker, cpu_seconds
from bench.cache import CHECKOUT
from bench.section import write_section

READY_TIMEOUT_S = 120.0
HEADERS = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
FIELDS = 10


def schema(number: int) -> str:
    """Return a record of some fields that no other number has."""
    fields: list[dict[str, Any]] = [
        {"name": f"field_{index}", "type": ["null", "string"], "default": None} for index in range(FIELDS)
    ]
    fields.append({"name": f"only_{number}", "type": "long", "default": 0})
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


@contextmanager
def registry(bootstrap: str, group: str) -> Iterator[tuple[int, int, float]]:
    """Run a registry; gives its process id, its port, and the time that it took to get ready."""
    command = [sys.executable, "-m", "tailrace", "registry", "start", "--bootstrap-server", bootstrap]
    command += ["--listen", "127.0.0.1:0", "--group", group]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        watchdog = threading.Timer(READY_TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            line = process.stdout.readline() if process.stdout else ""
            if " ready on " not in line:
                raise RuntimeError(f"the registry did not get ready; it printed {line!r}")
            watchdog.cancel()
            yield process.pid, int(line.rsplit(":", 1)[-1]), time.perf_counter() - started
        finally:
            watchdog.cancel()
            process.terminate()


def _ask(connection: http.client.HTTPConnection, method: str, path: str, body: object = None) -> Any:
    connection.request(method, path, None if body is None else json.dumps(body), HEADERS)
    answer = connection.getresponse()
    content = json.loads(answer.read())
    if answer.status != 200:
        raise RuntimeError(f"{method} {path}: {answer.status} {content}")
    return content


def _register(port: int, numbers: range, subject_count: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number in numbers:
        _ask(connection, "POST", f"/subjects/s{number % subject_count}/versions", {"schema": schema(number)})


def _look_up(port: int, numbers: range, schema_count: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number in numbers:
        _ask(connection, "GET", f"/schemas/ids/{number * 7919 % schema_count + 1}")


def _timed(pid: int, work: Callable[..., None], port: int, count: int, clients: int, argument: int) -> dict[str, float]:
    """Run work in several processes, and return requests a second and the registry's CPU time for each."""
    share = count // clients
    processes = [
        multiprocessing.Process(target=work, args=(port, range(index * share, (index + 1) * share), argument))
        for index in range(clients)
    ]
    cpu_before, started = cpu_seconds(pid), time.perf_counter()
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError("a client failed")
    taken = time.perf_counter() - started
    cpu = (cpu_seconds(pid) - cpu_before) / (share * clients)
    return {"per_second": round(share * clients / taken, 1), "cpu_ms": round(cpu * 1000, 3)}


def measure(schemas: int, subjects: int, lookups: int, clients: int) -> dict[str, Any]:
    """Fill a registry, read from it, and start another one on the same topic."""
    with TailraceBroker() as broker:
        with registry(broker.bootstrap_servers, "first") as (pid, port, ready_s):
            empty_mb = psutil.Process(pid).memory_info().rss / 1e6
            registered = _timed(pid, _register, port, schemas, clients, subjects)
            looked_up = _timed(pid, _look_up, port, lookups, clients, schemas)
        with registry(broker.bootstrap_servers, "second") as (pid, port, loaded_s):
            cpu_s = cpu_seconds(pid)
            full_mb = psutil.Process(pid).memory_info().rss / 1e6
            _look_up(port, range(100), schemas)
    return {
        "schemas": schemas,
        "subjects": subjects,
        "clients": clients,
        "registrations": registered,
        "lookups": looked_up,
        "empty": {"ready_s": round(ready_s, 2), "rss_mb": round(empty_mb, 1)},
        "full": {"ready_s": round(loaded_s, 2), "cpu_s": round(cpu_s, 2), "rss_mb": round(full_mb, 1)},
    }


HEADING = "The registry with 10,000 schemas"


def _section(result: dict[str, Any]) -> str:
    registered, looked_up, empty, full = (result[name] for name in ("registrations", "lookups", "empty", "full"))
    return f"""Written by `{result["command"]}`: {result["schemas"]} Avro schemas of {FIELDS + 1} fields
in {result["subjects"]} subjects, compatibility BACKWARD, {result["clients"]} clients with a connection each, and one
broker, all on one machine.

| | |
| --- | ---: |
| registrations a second | {registered["per_second"]:.0f} |
| CPU of the registry for one | {registered["cpu_ms"]:.2f} ms |
| lookups by id a second | {looked_up["per_second"]:.0f} |
| CPU of the registry for one | {looked_up["cpu_ms"]:.2f} ms |
| an empty registry is ready after | {empty["ready_s"]:.1f} s |
| one that reads all schemas first | {full["ready_s"]:.1f} s, {full["cpu_s"]:.1f} s of CPU |
| memory of an empty registry | {empty["rss_mb"]:.0f} MB |
| with all schemas | {full["rss_mb"]:.0f} MB |

The time to get ready holds the 3 s that a broker waits for more members of a new group
(`group.initial.rebalance.delay.ms`). Schemas are parsed when they are needed, not at the start.

{machine.table(result["conditions"])}"""


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.registry", description=__doc__.splitlines()[0])
    parser.add_argument("--schemas", type=int, default=10_000, help="schemas to register (default 10000)")
    parser.add_argument("--subjects", type=int, default=1_000, help="subjects for them (default 1000)")
    parser.add_argument("--lookups", type=int, default=20_000, help="lookups by id (default 20000)")
    parser.add_argument("--clients", type=int, default=8, help="clients at a time (default 8)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    given = parser.parse_args()
    result = {
        "command": machine.command_line("bench.registry", schemas=given.schemas, clients=given.clients),
        "conditions": machine.conditions("tailrace", "fastapi", "uvicorn"),
        **measure(given.schemas, given.subjects, given.lookups, given.clients),
    }
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "registry.json").write_text(json.dumps(result, indent=2) + "\n")
    page = given.output / "registry.md"
    if not page.exists():
        page.write_text("# The schema registry and its codecs\n")
    write_section(page, HEADING, _section(result))
    registered, looked_up = result["registrations"]["per_second"], result["lookups"]["per_second"]
    print(f"{registered:.0f} registrations and {looked_up:.0f} lookups a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
