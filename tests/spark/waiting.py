"""Waiting for what other processes do."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.client_setting import parse_client_settings
from tailrace.spark.topic_io import topic_io
from tailrace.testing import Broker


def wait_until(condition: Callable[[], bool], timeout_s: float = 180, why: Callable[[], str] = str) -> None:
    """Return when the condition holds; fail when it does not in time, and say why."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not true within {timeout_s} s {why()}")
        time.sleep(0.05)


def worker_was_late(failure: BaseException | None) -> bool:
    """Whether a query failed because Spark waits only ten seconds for the Python process of a source.

    Spark has no config for this wait. It is the one for the processes of streaming sources alone; those of batches and
    of tasks come from a daemon, which Spark waits for without an end.
    """
    return failure is not None and "Python worker failed to connect back" in str(failure)


def run_to_end(start: Callable[[], Any], attempt_count: int = 6) -> Any:
    """Start a query, wait for its end and return it. Where Python started too late for Spark, begin again."""
    for attempt in range(attempt_count):
        query = None
        try:
            query = start()
            query.awaitTermination()
        except Exception as error:
            if not worker_was_late(error) or attempt == attempt_count - 1:
                raise
        else:
            return query
    raise AssertionError("no attempt was made")


def start_running(start: Callable[[], Any], attempt_count: int = 6) -> Any:
    """Start a query and return it when its sources run. Where Python started too late for Spark, begin again."""
    for _ in range(attempt_count):
        query = start()
        wait_until(partial(_has_sources, query), why=lambda: str(query.status))  # noqa: B023
        if not worker_was_late(query.exception()):
            return query
    raise AssertionError(f"Python was late {attempt_count} times: {query.exception()}")


def _has_sources(query: Any) -> bool:
    return not query.isActive or not query.status["message"].startswith("Initializing ")


def record_count(broker: Broker, topic: str) -> int:
    """How many records a topic has got, by its offsets."""
    topics = topic_io(parse_client_settings({"kafka.bootstrap.servers": broker.bootstrap_servers}))
    partitions = [TopicPartition(topic, index) for index in range(topics.partition_counts([topic])[topic])]
    return sum(topics.edges(partitions)[1].values())
