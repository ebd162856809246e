"""A broker in a process of its own, Tailrace's or Apache Kafka, for tests that want other options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from bench.cache import Unavailable
from tests.clients.conftest import TARGET
from tests.clients.raw import Wire


@contextmanager
def own_broker(options: Mapping[str, str]) -> Iterator[str]:
    """Where it is reached; skips where Kafka is wanted and cannot be had."""
    options = {"log.retention.ms": "-1", **options}  # records may have the time of another year
    if TARGET == "kafka":
        from bench.kafka import ApacheKafka

        try:
            kafka = ApacheKafka({"offsets.topic.replication.factor": "1", **options}).start()
        except Unavailable as reason:
            pytest.skip(str(reason))
        try:
            yield kafka.bootstrap_servers
        finally:
            kafka.stop()
    else:
        from bench.broker import TailraceBroker

        with TailraceBroker(dict(options)) as broker:
            yield broker.bootstrap_servers


def need_client(program: Callable[[], object]) -> None:
    """Skip where the program of a client cannot be had."""
    try:
        program()
    except Unavailable as reason:
        pytest.skip(str(reason))


def need_apis(bootstrap: str, keys: set[int], what: str) -> None:
    """Skip where the broker does not advertise all of these."""
    with Wire(bootstrap) as wire:
        answer = wire.ask("ApiVersions", 0)
    assert not isinstance(answer, str)
    if not {api["api_key"] for api in answer["api_keys"]} >= keys:
        pytest.skip(f"the broker does not advertise {what}")
