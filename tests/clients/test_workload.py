"""One workload through every client: `workload.md` says what it is, `matrix.json` who does what of it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from bench.cache import Unavailable
from tests.clients import client_aiokafka, client_confluent, client_kafka_python, matrix, program, workload
from tests.clients.ask.asker import Asker
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


# Clients that share a download or a build share a group, so that one worker does it once.
FETCHING = pytest.mark.timeout(900)
CLIENTS = [
    *(
        pytest.param(name, _module(module), id=name, marks=pytest.mark.xdist_group(name))
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
            marks=[pytest.mark.xdist_group(group), pytest.mark.needs(group), FETCHING],
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


@pytest.mark.parametrize(("name", "run"), CLIENTS)
def test_workload(name: str, run: Run, broker_bootstrap: str, reference_topic: str, topic: str) -> None:
    """Write, check what is stored, read it and what another client wrote, change, delete."""
    entry = matrix.entry(name)
    options = ("no-groups",) if entry.needs_groups else ()

    assert run("write", broker_bootstrap, topic) == entry.expected("write")
    _assert_same(
        client_confluent.stored_records(broker_bootstrap, topic),
        workload.expected_records(null_headers=entry.null_headers),
    )
    assert _stored_codecs(broker_bootstrap, topic) == {0, 1, 2, 3, 4}
    assert run("read", broker_bootstrap, topic, *options) == entry.expected("read")
    read = run("read", broker_bootstrap, reference_topic, *options)
    assert read == entry.expected("read", null_headers=True)
    assert run("change", broker_bootstrap, topic) == entry.expected("change")


@pytest.mark.parametrize(
    ("name", "run"), [client for client in CLIENTS if matrix.entry(str(client.values[0])).needs_groups]
)
def test_reading_in_a_group(name: str, run: Run, broker_bootstrap: str, reference_topic: str, has_groups: bool) -> None:
    """What a client can only do as a member of a consumer group."""
    if not has_groups:
        pytest.skip(f"{name} reads only in consumer groups, which this broker does not advertise")
    expected = matrix.entry(name).expected("read", in_group=True, null_headers=True)
    assert run("read", broker_bootstrap, reference_topic) == expected


def _assert_same(stored: list[Record], wanted: list[Record]) -> None:
    """Compare record by record, so that a failure shows one record and not ten thousand."""
    for found, expected in zip(stored, wanted, strict=False):
        assert found == expected
    assert len(stored) == len(wanted)


def _stored_codecs(bootstrap: str, topic: str) -> set[int]:
    return {attributes & 7 for _, _, attributes, _ in Asker(bootstrap).stored(topic)}


def test_every_client_of_the_matrix_is_run() -> None:
    """A row without a test would claim what nobody checked."""
    tested = {param.values[0] for param in CLIENTS} | {"kcat"}
    assert {row["client"] for row in matrix.DATA["clients"]} == tested


def test_every_step_of_the_matrix_is_known() -> None:
    """A misspelt step would quietly be left out of what is expected."""
    for row in matrix.DATA["clients"]:
        assert set(row["covers"]) <= set(matrix.DATA["steps"])


@pytest.mark.parametrize("null_headers", [True, False])
def test_digest_notices_every_field(null_headers: bool) -> None:
    """The digest is all that a foreign client reports of its records, so it must see each byte."""
    from dataclasses import replace

    (original,) = [item for item in workload.expected_records(null_headers=null_headers) if item.offset == 1][:1]
    changed = [
        replace(original, partition=9),
        replace(original, offset=9),
        replace(original, timestamp_ms=9),
        replace(original, key=b"" if original.key is None else None),
        replace(original, value=b"other"),
        replace(original, headers=()),
        replace(original, headers=(*original.headers[:-1], (original.headers[-1][0], None))),
    ]
    digests = {workload.digest([item]) for item in [original, *changed]}
    assert len(digests) == len(changed) + 1
