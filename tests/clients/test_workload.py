"""One workload through every client: `workload.md` says what it is, `matrix.json` who does what of it."""

from __future__ import annotations

import pytest
from tests.clients import matrix, workload
from tests.clients.ask.asker import Asker
from tests.clients.roster import CLIENTS, Run, read_and_change, write


@pytest.mark.parametrize(("name", "run"), CLIENTS)
def test_workload(name: str, run: Run, broker_bootstrap: str, reference_topic: str, topic: str) -> None:
    """Write, check what is stored, read it and what another client wrote, change, delete."""
    write(name, run, broker_bootstrap, topic)
    assert _stored_codecs(broker_bootstrap, topic) == {0, 1, 2, 3, 4}
    read_and_change(name, run, broker_bootstrap, topic, reference_topic)


@pytest.mark.parametrize(
    ("name", "run"), [client for client in CLIENTS if matrix.entry(str(client.values[0])).needs_groups]
)
def test_reading_in_a_group(name: str, run: Run, broker_bootstrap: str, reference_topic: str, has_groups: bool) -> None:
    """What a client can only do as a member of a consumer group."""
    if not has_groups:
        pytest.skip(f"{name} reads only in consumer groups, which this broker does not advertise")
    expected = matrix.entry(name).expected("read", in_group=True, null_headers=True)
    assert run("read", broker_bootstrap, reference_topic) == expected


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
