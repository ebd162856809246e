"""Every client of the matrix, ready to be run: those in Python by a call, the others by their programs."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from bench.cache import Unavailable
from tests.clients import client_aiokafka, client_confluent, client_kafka_python, matrix, program, workload
from tests.clients.workload import Record

Run = Callable[..., dict[str, Any]]


def _module(module: ModuleType) -> Run:
    def run(phase: str, bootstrap: str, topic: str, *_: str) -> dict[str, Any]:
        report: dict[str, Any] = getattr(module, phase)(bootstrap, topic)
        return report

    return run


def _fetched(program: program.Program) -> Run:
    def run(*arguments: str) -> dict[str, Any]:
        try:
            return program.run(*arguments)
        except Unavailable as reason:
            pytest.skip(str(reason))

    return run


CLIENTS = [
    *(
        pytest.param(name, _module(module), id=name)
        for name, module in (
            ("confluent-kafka", client_confluent),
            ("kafka-python", client_kafka_python),
            ("aiokafka", client_aiokafka),
        )
    ),
    *(
        pytest.param(
            name,
            _fetched(made),
            id=name.replace(" ", "-"),
            marks=pytest.mark.needs(group),
        )
        for name, made, group in (
            ("kafka-clients 3.9", program.java(matrix.entry("kafka-clients 3.9").version), "java"),
            ("kafka-clients 4", program.java(matrix.entry("kafka-clients 4").version), "java"),
            ("franz-go", program.go("franz"), "go"),
            ("sarama", program.go("sarama"), "go"),
            ("kafkajs", program.node(), "node"),
        )
    ),
]


def write(name: str, run: Run, bootstrap: str, topic: str) -> None:
    """Create the topic, write the records, and see that they are there byte by byte."""
    check_written(name, bootstrap, topic, run("write", bootstrap, topic))


def check_written(name: str, bootstrap: str, topic: str, report: dict[str, Any]) -> None:
    """See that a client says what it should, and that all of its records are there."""
    entry = matrix.entry(name)
    assert report == entry.expected("write")
    stored = client_confluent.stored_records(bootstrap, topic)
    _assert_same(stored, workload.expected_records(null_headers=entry.null_headers))


def read_and_change(name: str, run: Run, bootstrap: str, topic: str, reference_topic: str | None = None) -> None:
    """Read what was written and, where it is named, what another client wrote; change the topic, delete it."""
    entry = matrix.entry(name)
    options = ("no-groups",) if entry.needs_groups else ()
    assert run("read", bootstrap, topic, *options) == entry.expected("read")
    if reference_topic is not None:
        read = run("read", bootstrap, reference_topic, *options)
        assert read == entry.expected("read", null_headers=True)
    assert run("change", bootstrap, topic) == entry.expected("change")


def _assert_same(stored: list[Record], wanted: list[Record]) -> None:
    """Compare record by record, so that a failure shows one record and not ten thousand."""
    for found, expected in zip(stored, wanted, strict=False):
        assert found == expected
    assert len(stored) == len(wanted)
