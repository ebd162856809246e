"""A mirror on Spark, as a user runs it: the copies, the state, and a Python worker that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.eventual import eventually
from tests.faults.spark_kill_process import ENVIRONMENT, kill_session, python_workers
from tests.unit.spark.mirror.pair import committed

import tailrace
from tailrace.testing import Broker

TIMEOUT_S = 300
CHECKOUT = Path(__file__).resolve().parents[2]


def write(broker: Broker, numbers: range) -> None:
    with tailrace.Producer(broker.bootstrap_servers) as producer:
        for number in numbers:
            producer.send("orders", b"%d" % number, b"%d" % (number % 10))


def command(source: Broker, target: Broker, *more: str) -> list[str]:
    clusters = ("--from", f"east={source.bootstrap_servers}", "--to", f"west={target.bootstrap_servers}")
    return [sys.executable, "-m", "tailrace.cli.main", "mirror", "run", *clusters, "--topics", "orders", *more]


@pytest.mark.slow
def test_a_mirror_copies_once_and_goes_on_after_a_worker_was_killed(tmp_path: Path) -> None:
    with Broker() as source, Broker() as target:
        source.create_topic("orders", 2)
        write(source, range(1_000))
        done = subprocess.run(
            command(source, target, "--once"), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "orders: 1000 records copied, 0 offsets behind" in done.stderr
        assert committed(target, "orders") == committed(source, "orders")
        with (tmp_path / "mirror.txt").open("w") as output:
            process = subprocess.Popen(
                command(source, target),
                cwd=CHECKOUT,
                env=os.environ | ENVIRONMENT,
                stderr=output,
                start_new_session=True,
            )
        try:
            write(source, range(1_000, 2_000))
            eventually(lambda: len(committed(target, "orders")), lambda count: count == 2_000)
            for pid in python_workers(process.pid):
                os.kill(pid, signal.SIGKILL)
            write(source, range(2_000, 3_000))
            found = eventually(lambda: len(committed(target, "orders")), lambda count: count == 3_000)
            assert found == 3_000, (tmp_path / "mirror.txt").read_text()
            process.terminate()
            assert process.wait(TIMEOUT_S) == 0, (tmp_path / "mirror.txt").read_text()
        finally:
            kill_session(process.pid)
            process.wait()
        assert committed(target, "orders") == committed(source, "orders")
