"""What TLS costs a broker, compared with Apache Kafka, in one run.

    python -m bench.tls [--rounds 3] [--mb 200] [--seconds 6] [--only tailrace,kafka]

Each broker has a listener without and one with TLS 1.3; one client produces and consumes records of 1 KB through each
in turn. The targets take turns, round by round; what is reported is the median. Writes `docs/benchmarks/tls.json` and
`tls.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench import machine
from bench.broker import TailraceBroker
from bench.cache import CHECKOUT, Unavailable
from bench.kafka import KAFKA_VERSION, ApacheKafka, free_ports
from bench.load import Measurement, run_round

RECORD_BYTES = 1000
PHASES = ("produce", "consume")
NAMES = {"tailrace": "Tailrace", "kafka": f"Apache Kafka {KAFKA_VERSION}"}


class Door:
    """One listener of a broker, as a target of its own."""

    def __init__(self, broker: TailraceBroker | ApacheKafka, bootstrap_servers: str) -> None:
        self._broker = broker
        self.bootstrap_servers = bootstrap_servers

    @property
    def pid(self) -> int:
        """The broker's process id."""
        return self._broker.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the broker to the tasks that started it."""


def make_keys(folder: Path) -> None:
    """Make a certificate for 127.0.0.1 that is its own authority: keys.pem with its key, ca.pem without."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=broker"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "key.pem"), "-out"]
    subprocess.run([*command, str(folder / "ca.pem")], check=True, capture_output=True)
    # Java reads only keys in PKCS#8, which openssl writes since version 3.
    (folder / "keys.pem").write_bytes((folder / "key.pem").read_bytes() + (folder / "ca.pem").read_bytes())


def start(name: str, keys: Path, stack: contextlib.ExitStack) -> dict[str, Door]:
    """Start a broker with two listeners, and return each."""
    plain, tls, controller = free_ports(3)
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{tls}"
    settings = {
        "listeners": listeners,
        "ssl.keystore.location": str(keys / "keys.pem"),
        "ssl.keystore.type": "PEM",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    broker: TailraceBroker | ApacheKafka
    if name == "tailrace":
        broker = TailraceBroker(settings)
    else:
        more = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": listeners,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        }
        broker = ApacheKafka({**settings, **more}, heap_mb=1024)
    stack.enter_context(broker)
    return {"no TLS": Door(broker, f"127.0.0.1:{plain}"), "TLS 1.3": Door(broker, f"127.0.0.1:{tls}")}


def measure(doors: Mapping[tuple[str, str], Door], ca: Path, rounds: int, byte_limit: int, seconds: float) -> Any:
    """Run the rounds, of which the first is not counted, and return the figures of every one."""
    found: dict[tuple[str, str, str], list[Measurement]] = {}
    order = list(doors)
    for number in range(-1, rounds):
        start_at = number % len(order)
        for name, kind in order[start_at:] + order[:start_at]:
            client = {} if kind == "no TLS" else {"security.protocol": "ssl", "ssl.ca.location": str(ca)}
            topic = f"bench-{uuid.uuid4().hex[:8]}"
            measured = run_round(doors[name, kind], topic, RECORD_BYTES, byte_limit, seconds, client)
            for phase, measurement in zip(PHASES, measured, strict=True):
                print(
                    f"round {number + 1} {NAMES[name]:20} {kind:8} {phase} {measurement.mb_per_s:7.1f} MB/s"
                    f"  broker {measurement.broker_cpu_s_per_gb:6.2f} CPU s/GB"
                    f"  others {measurement.other_cores:.2f} cores",
                    flush=True,
                )
                if number >= 0:
                    found.setdefault((name, kind, phase), []).append(measurement)
    return [
        {
            "target": NAMES[name],
            "protocol": kind,
            "phase": phase,
            "mb_per_s": [round(item.mb_per_s, 1) for item in items],
            "broker_cpu_s_per_gb": [round(item.broker_cpu_s_per_gb, 3) for item in items],
            "other_cores": [round(item.other_cores, 2) for item in items],
        }
        for (name, kind, phase), items in found.items()
    ]


def page(result: Mapping[str, Any]) -> str:
    """Return the report."""
    rows = sorted(result["results"], key=lambda row: (PHASES.index(row["phase"]), row["target"], row["protocol"]))
    lines = [
        f"| {row['phase']} | {row['target']} | {row['protocol']} | {statistics.median(row['mb_per_s']):,.0f} "
        f"| {statistics.median(row['broker_cpu_s_per_gb']):.2f} |"
        for row in rows
    ]
    others = [value for row in rows for value in row["other_cores"]]
    return "\n".join(
        [
            "# The cost of TLS",
            "",
            f"Written by `{result['command']}`; the figures of every round are in `tls.json`.",
            "",
            "One confluent-kafka client on the same machine produces records of 1 KB of random bytes to one partition",
            "(acks=all) and reads them back, through a listener without TLS and through one with TLS 1.3, of the same",
            f"broker process. Medians of {result['rounds']} rounds. Everything else on the machine kept",
            f"{statistics.median(others):.2f} cores busy in the median phase and {max(others):.2f} in the worst one.",
            *([""] + result["missing"] if result["missing"] else []),
            "",
            "| | target | protocol | MB/s | broker CPU s/GB |",
            "| --- | --- | --- | ---: | ---: |",
            *lines,
            "",
            "## The machine",
            "",
            machine.table(result["conditions"]),
        ]
    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.tls", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds (default 3)")
    parser.add_argument("--mb", type=int, default=200, help="limit of payload megabytes in a phase (default 200)")
    parser.add_argument("--seconds", type=float, default=6.0, help="limit of seconds to produce in a phase (default 6)")
    parser.add_argument("--only", default="tailrace,kafka", help="the brokers to measure (default tailrace,kafka)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "docs" / "benchmarks", help="the results folder")
    arguments = parser.parse_args()
    conditions = machine.conditions("tailrace", "confluent-kafka")
    missing: list[str] = []
    doors: dict[tuple[str, str], Door] = {}
    with contextlib.ExitStack() as stack:
        keys = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_keys(keys)
        for name in arguments.only.split(","):
            try:
                for kind, door in start(name, keys, stack).items():
                    doors[name, kind] = door
            except Unavailable as reason:
                missing.append(f"{NAMES[name]} was left out: {reason}.")
        results = measure(doors, keys / "ca.pem", arguments.rounds, arguments.mb * 1_000_000, arguments.seconds)
    conditions["load after the run"] = machine.load()
    result = {
        "command": machine.command_line(
            "bench.tls", rounds=arguments.rounds, mb=arguments.mb, seconds=f"{arguments.seconds:g}"
        ),
        "rounds": arguments.rounds,
        "conditions": conditions,
        "missing": missing,
        "results": results,
    }
    (arguments.output / "tls.json").write_text(json.dumps(result, indent=2) + "\n")
    (arguments.output / "tls.md").write_text(page(result))
    print(f"written: tls.json, tls.md in {arguments.output.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
