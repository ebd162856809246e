"""Streams that are written exactly once: each micro-batch counts whole and once, also when its driver is killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.waiting import record_count, run_to_end, wait_until

import tailrace
from tailrace.spark.claim import Claim
from tailrace.spark.transaction_desk import TOPIC
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.exact

CHECKOUT = Path(__file__).resolve().parents[2]


def committed(broker: Broker, topic: str) -> list[bytes | None]:
    """The values that readers of committed records see."""
    table = tailrace.read_table(broker.bootstrap_servers, topic, columns=["value"], isolation_level="read_committed")
    values: list[bytes | None] = table.column("value").to_pylist()
    return values


def open_transactions(broker: Broker, *sinks: str) -> list[str]:
    """The transactions of these sinks that are open; flows of other tests that were stopped may have left some."""
    with tailrace.Admin(broker.bootstrap_servers) as admin:
        found = [each.transactional_id for each in admin.list_transactions(states=["Ongoing"])]
    return [name for name in found if any(sink in name for sink in sinks)]


def start(frame: DataFrame, broker: Broker, checkpoint: Path, sink: str, **options: Any) -> Any:
    """A stream that writes exactly once what there is."""
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": sink, "delivery": "exactly-once"} | options
    writer = frame.writeStream.format("tailrace").options(**given).option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).start()


def test_a_stream_in_several_batches(
    broker: Broker,
    new_topic: Callable[..., str],
    read_stream: Callable[..., DataFrame],
    tmp_path: Path,
) -> None:
    source, sink = new_topic(2), new_topic(2)
    broker.produce(source, ((b"%d" % number, b"%d" % number) for number in range(300)))
    frame = read_stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=100).select("key", "value")
    for count in (300, 400):
        run_to_end(lambda: start(frame, broker, tmp_path, sink))
        assert Counter(committed(broker, sink)) == Counter(b"%d" % number for number in range(count))
        broker.produce(source, ((b"%d" % number, b"%d" % number) for number in range(300, 400)))
    assert open_transactions(broker, sink) == []


@pytest.mark.slow
def test_several_streams_in_one_session(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    broker: Broker,
    new_topic: Callable[..., str],
    read_stream: Callable[..., DataFrame],
    tmp_path: Path,
) -> None:
    """Spark commits in whichever Python worker is free. Workers that swapped their queries fenced each other, and a
    query failed with "another producer has taken the transactional id".
    """
    source, *sinks = new_topic(2), *(new_topic(2) for _ in range(3))
    frame = read_stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=80).select("key", "value")
    # Commits that take a while overlap, and then there are several workers, which Spark uses by turns.
    broker.inject(api="END_TXN", delay=0.3, count=None)
    request.addfinalizer(broker.clear_faults)

    def begin(sink: str) -> Callable[[], Any]:
        started = [start(frame, broker, tmp_path / sink, sink)]
        return lambda: started.pop() if started else start(frame, broker, tmp_path / sink, sink)

    for count in range(400, 2_400, 400):  # a busy machine may commit each sink in one worker for a while
        broker.produce(source, ((b"%d" % number, b"%d" % number) for number in range(count - 400, count)))
        for run in [begin(sink) for sink in sinks]:
            run_to_end(run)
        for sink in sinks:
            assert Counter(committed(broker, sink)) == Counter(b"%d" % number for number in range(count))
        assert open_transactions(broker, *sinks) == []
        if any(len(workers(broker, sink)) > 1 for sink in sinks):
            return
    pytest.fail("Spark committed each sink in one worker")


def workers(broker: Broker, sink: str) -> set[str]:
    """The Python workers that have claimed a sink."""
    records = [(record.key or b"", record.value) for record in broker.consume(TOPIC)]
    claims = [value for key, value in records if key.startswith(b"claim/") and key.endswith(f"/{sink}".encode())]
    return {Claim.decode(value).worker for value in claims if value}


def test_what_is_not_decided_is_seen_by_nobody(
    spark: SparkSession,
    broker: Broker,
    new_topic: Callable[..., str],
    read_stream: Callable[..., DataFrame],
    tmp_path: Path,
) -> None:
    """A task that fails takes its whole batch with it, and what others had written goes when the query comes back."""
    from pyspark.sql import functions as f

    source, sink = new_topic(2), new_topic(2)
    broker.produce(source, ((b"%d" % number, b"%d" % number) for number in range(100)))
    frame = read_stream(subscribe=source, startingOffsets="earliest").select("key", "value")
    poison = f.when(f.col("value") == f.lit(b"7"), f.raise_error(f.lit("poison"))).otherwise(f.col("value"))
    with pytest.raises(Exception, match="poison"):
        run_to_end(lambda: start(frame.withColumn("value", poison), broker, tmp_path, sink))
    assert committed(broker, sink) == []
    run_to_end(lambda: start(frame, broker, tmp_path, sink))
    assert Counter(committed(broker, sink)) == Counter(b"%d" % number for number in range(100))
    assert open_transactions(broker, sink) == []


@pytest.mark.slow
def test_a_checkpoint_that_is_older_by_one_batch_is_noticed(
    broker: Broker, new_topic: Callable[..., str], read_stream: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """Spark planned the batch anew, with the rows that had come since; it was taken for a repetition and left out."""
    source, sink = new_topic(2), new_topic(2)
    frame = read_stream(subscribe=source, startingOffsets="earliest").select("key", "value")
    used, copy, newer = (tmp_path / name for name in ("used", "copy", "newer"))

    def run(count: int) -> None:
        broker.produce(source, ((b"%d" % number, b"%d" % number) for number in range(count - 100, count)))
        run_to_end(lambda: start(frame, broker, used, sink))

    run(100)
    shutil.copytree(used, copy)
    run(200)
    used.rename(newer)
    shutil.copytree(copy, used)
    with pytest.raises(Exception, match=r"is older .* planned batch 1 of .* anew, and the topic has another batch 1"):
        run(300)
    assert Counter(committed(broker, sink)) == Counter(b"%d" % number for number in range(200))

    shutil.rmtree(used)
    newer.rename(used)
    for end in (used / "commits").glob("*1*"):  # the batch is repeated, and the next one is planned
        end.unlink()
    run_to_end(lambda: start(frame, broker, used, sink))
    assert Counter(committed(broker, sink)) == Counter(b"%d" % number for number in range(300))
    assert open_transactions(broker, sink) == []


def test_a_broker_without_two_phase_commit_is_told_of(
    new_topic: Callable[..., str],
    spark: SparkSession,
    read_stream: Callable[..., DataFrame],
    broker: Broker,
    tmp_path: Path,
) -> None:
    source = new_topic(1)
    broker.produce(source, [(b"a", b"b")])
    frame = read_stream(subscribe=source, startingOffsets="earliest").select("key", "value")
    with Broker({"transaction.two.phase.commit.enable": False}) as other:
        other.create_topic("out", 1)
        with pytest.raises(Exception, match="two-phase commit, with which rows are written exactly once"):
            run_to_end(lambda: start(frame, other, tmp_path, "out"))


def test_batches_outside_of_a_stream_are_not_written_exactly_once(
    spark: SparkSession, new_topic: Callable[..., str], write: Callable[..., None]
) -> None:
    frame = spark.createDataFrame([("a",)], "value string")
    with pytest.raises(Exception, match="only streams are written exactly once"):
        write(frame, topic=new_topic(1), delivery="exactly-once")


@pytest.mark.slow
def test_a_driver_that_is_killed_in_the_middle_of_a_batch(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Sums by key over all that came: the newest of each key must be right, and every batch must count once."""
    from tests.spark.summing import Summing

    source, sink = new_topic(2), new_topic(2)
    broker.produce(source, ((b"%d" % (number % 10), b"%d" % number) for number in range(1_000)))
    summing = Summing(broker.bootstrap_servers, source, sink, str(tmp_path), "200")
    environment = os.environ | {"PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.summing", *summing], cwd=CHECKOUT, env=environment, start_new_session=True
    )
    try:
        wait_until(lambda: record_count(broker, sink) >= 10 or process.poll() is not None, timeout_s=240)
        assert process.poll() is None, "the driver ended by itself"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    run_to_end(lambda: summing.start(spark, availableNow=True))
    summing.check(broker.bootstrap_servers, 1_000)
    assert open_transactions(broker, sink) == []
