"""Streams whose driver is killed with -9 at random points: they go on from their checkpoints."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.killable import running_brokers
from tests.faults.spark_kill import Loop
from tests.faults.spark_kill_desk import DecidedSource
from tests.faults.spark_kill_plan import plan_kills
from tests.spark.driver import Copier
from tests.spark.waiting import record_count, run_to_end, wait_until

from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.exact


CHECKOUT = Path(__file__).resolve().parents[2]
RECORD_COUNT = 2_000
OFFSETS_PER_BATCH = 200
KILL_COUNT = 3


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_is_lost_and_only_what_was_unfinished_is_written_again(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    source, stream_sink, batch_sink = new_topic(3), new_topic(2), new_topic(2)
    broker.produce(source, ((b"%d" % (number % 100), b"%d" % number) for number in range(RECORD_COUNT)))
    copier = Copier(broker.bootstrap_servers, source, stream_sink, batch_sink, str(tmp_path), str(OFFSETS_PER_BATCH))
    for _ in range(KILL_COUNT):
        least = record_count(broker, stream_sink) + dice.randrange(1, 400)
        kill_after(copier, partial(has_records, broker, stream_sink, least), dice)
    run_to_end(lambda: copier.start_stream(spark, availableNow=True))
    copier.copy_batch(spark)

    check_stream(broker, stream_sink, seed)
    check_batches(broker, batch_sink, copier.log.read_text(), seed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("on_cluster", [False, True], ids=["local", "cluster"])
def test_four_flows_write_exactly_once_while_they_are_killed(tmp_path: Path, *, on_cluster: bool) -> None:
    """Spark commits in whichever Python worker is free, and with several flows workers take turns at each sink.

    A worker that took over used to fence the one before it, whose next batch failed. One flow did not show that.
    """
    seed = random.randrange(2**32)
    targets = ("driver", "worker", "broker", "executor" if on_cluster else "worker")
    with running_brokers(1, tmp_path) as (address, brokers):
        loop = Loop(tmp_path, address, brokers, on_cluster=on_cluster, format_name=DecidedSource.name(), flow_count=4)
        kills = plan_kills(seed, 4, targets, loop.flow_names)
        found = loop.run(kills, math.inf, print)
    assert len(found) == 4
    assert all(flow.is_equal for flow in found), f"seed {seed}, {found}"


def has_records(broker: Broker, topic: str, least: int) -> bool:
    """Tell whether a topic has that many records."""
    return record_count(broker, topic) >= least


def kill_after(copier: Copier, condition: Callable[[], bool], dice: random.Random) -> None:
    """Run the driver until a condition holds and a little longer, then kill it and everything it started."""
    environment = os.environ | {"PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}"}
    errors = Path(copier.folder) / "stderr"
    with errors.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.driver", *copier],
            cwd=CHECKOUT,
            env=environment,
            start_new_session=True,
            stderr=output,
        )
    try:
        wait_until(lambda: condition() or process.poll() is not None, timeout_s=240, why=lambda: told(copier, errors))
        time.sleep(dice.uniform(0, 0.5))  # into any part of a batch
        assert process.poll() is None, f"the driver ended by itself: {told(copier, errors)}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def told(copier: Copier, errors: Path) -> str:
    """How far the driver came."""
    copies = copier.log.read_text() if copier.log.exists() else ""
    return f"copies {copies!r}, {errors.read_text()[-2000:]}"


def check_stream(broker: Broker, sink: str, seed: int) -> None:
    """Everything is there, and little of it twice."""
    found = Counter(record.value for record in broker.consume(sink))
    assert found.keys() == {b"%d" % number for number in range(RECORD_COUNT)}, f"seed {seed}"
    # A killed driver leaves at most one batch unfinished, and each of its partitions may take one offset more.
    assert found.total() - len(found) <= KILL_COUNT * (OFFSETS_PER_BATCH + 3), f"seed {seed}"
    check_order_of_keys(broker, sink)


def check_batches(broker: Broker, sink: str, copies: str, seed: int) -> None:
    """Every copy that was finished is whole, and those that were not are there in part."""
    found = Counter(record.value for record in broker.consume(sink))
    begun_count, finished_count = copies.count("b"), copies.count("f")
    for number in range(RECORD_COUNT):
        assert finished_count <= found[b"%d" % number] <= begun_count, f"seed {seed}, {copies}, record {number}"


def check_order_of_keys(broker: Broker, sink: str) -> None:
    """The first time that each record of a key was written is in the order of the source."""
    for partition in range(2):
        seen: dict[bytes | None, int] = {}
        written: set[int] = set()
        for record in broker.consume(sink, [partition]):
            number = int(record.value or b"")
            if number not in written:
                assert seen.get(record.key, -1) < number
                seen[record.key] = number
                written.add(number)
