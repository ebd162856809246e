"""A stream from topic to topic whose driver is killed with -9 at random points, and goes on from its checkpoint."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark import driver
from tests.spark.waiting import record_count, wait_until

from runnel.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

CHECKOUT = Path(__file__).resolve().parents[2]
RECORD_COUNT = 5_000
OFFSETS_PER_BATCH = 250
KILL_COUNT = 2


def test_nothing_is_lost_and_only_unfinished_batches_are_written_again(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    source, sink = new_topic(3), new_topic(2)
    broker.produce(source, ((b"%d" % (number % 100), b"%d" % number) for number in range(RECORD_COUNT)))
    arguments = [broker.bootstrap_servers, source, sink, str(tmp_path / "checkpoint"), str(OFFSETS_PER_BATCH)]
    for _ in range(KILL_COUNT):
        least = record_count(broker, sink) + dice.randrange(1, 1000)
        kill_after(arguments, lambda least=least: record_count(broker, sink) >= least, dice)
    driver.start(spark, *arguments, availableNow=True).awaitTermination()

    found = Counter(record.value for record in broker.consume(sink))
    expected = {b"%d" % number for number in range(RECORD_COUNT)}
    again = found.total() - len(found)
    assert found.keys() == expected, f"seed {seed}"
    # A killed driver leaves at most one batch unfinished, and each of its partitions may take one offset more.
    assert again <= KILL_COUNT * (OFFSETS_PER_BATCH + 3), f"seed {seed}"
    check_order_of_keys(broker, sink)


def kill_after(arguments: list[str], condition: Callable[[], bool], dice: random.Random) -> None:
    """Run the driver until a condition holds and a little longer, then kill it and everything it started."""
    environment = os.environ | {"PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.driver", *arguments],
        cwd=CHECKOUT,
        env=environment,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: condition() or process.poll() is not None, timeout_s=150)
        time.sleep(dice.uniform(0, 0.5))  # into any part of a batch
        assert process.poll() is None, "the driver ended by itself"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


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
