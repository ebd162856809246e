"""Waiting for what other processes do."""

import time
from collections.abc import Callable
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


def run_to_end(start: Callable[[], Any], attempt_count: int = 6) -> None:
    """Start a query and wait for its end. Spark gives Python ten seconds to start; where it was late, begin again."""
    for attempt in range(attempt_count):
        try:
            start().awaitTermination()
            return
        except Exception as error:
            if "failed to connect back" not in str(error) or attempt == attempt_count - 1:
                raise


def record_count(broker: Broker, topic: str) -> int:
    """How many records a topic has got, by its offsets."""
    topics = topic_io(parse_client_settings({"kafka.bootstrap.servers": broker.bootstrap_servers}))
    partitions = [TopicPartition(topic, index) for index in range(topics.partition_counts([topic])[topic])]
    return sum(topics.edges(partitions)[1].values())
