"""A pipeline file that is run once, over what its topics hold now, or for as long as a block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.waiting import wait_until

from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import checkpoints_of, plan_flow
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.spark.pipeline.topic_check import create_sinks
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_pipeline(spark: SparkSession, broker: Broker, path: Path) -> PipelineRun:
    """Run every flow of a file until it has read what is there, and return the run."""
    with running_pipeline(spark, broker, path, once=True) as running:
        wait_until(lambda: not running.check(), timeout_s=300)
    return running


@contextmanager
def running_pipeline(
    spark: SparkSession, broker: Broker, path: Path, *, once: bool = False, stopping: threading.Event | None = None
) -> Iterator[PipelineRun]:
    """Run every flow of a file during the block."""
    pipeline = load_pipeline(path)
    client = {"bootstrap.servers": broker.bootstrap_servers}
    plans = [plan_flow(flow, client, checkpoints_of(path), path.parent) for flow in pipeline.flows]
    running = PipelineRun(spark, pipeline, plans, stopping=stopping)
    try:
        running.build()
        create_sinks(plans, client)
        running.start(once=once)
        yield running
    finally:
        running.stop()
