"""What of the workload kcat can do: produce from standard input, print what it reads, look up times."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from bench.cache import FETCH_HINT
from confluent_kafka.admin import AdminClient
from tests.clients import client_confluent, matrix, workload
from tests.clients.ask.asker import Asker
from tests.clients.workload import Record

KCAT = shutil.which("kcat")
BETWEEN_RECORDS, BETWEEN_KEY_AND_VALUE = b"<|>", b"<:>"
HEADER_OPTIONS = ("-H", "trace=7", "-H", "empty=", "-H", "null", "-H", "twin=1", "-H", "twin=2")
HEADERS = (("trace", b"7"), ("empty", b""), ("null", None), ("twin", b"1"), ("twin", b"2"))

pytestmark = [
    pytest.mark.needs("kcat"),
    pytest.mark.skipif(KCAT is None, reason=f"kcat is not installed; {FETCH_HINT}"),
]


def _kcat(bootstrap: str, *arguments: str, data: bytes = b"") -> bytes:
    done = subprocess.run(
        [KCAT or "kcat", "-b", bootstrap, *arguments], input=data, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def test_version_is_the_one_in_the_matrix() -> None:
    """The matrix must name what was really run."""
    said = subprocess.run([KCAT or "kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Version ([\d.]+)", said)
    assert found is not None
    assert found.group(1) == matrix.entry("kcat").version


def test_produce(broker_bootstrap: str, topic: str) -> None:
    """Every codec through kcat, read back by confluent-kafka."""
    admin = AdminClient({"bootstrap.servers": broker_bootstrap})
    client_confluent.create(admin, topic)
    for codec, records in workload.by_codec():
        for partition in range(workload.PARTITION_COUNT):
            lines = [_line(item) for item in records if item.partition == partition]
            options = ["-P", "-t", topic, "-p", str(partition), "-z", codec, "-Z", *HEADER_OPTIONS]
            delimiters = ["-D", BETWEEN_RECORDS.decode(), "-K", BETWEEN_KEY_AND_VALUE.decode()]
            _kcat(broker_bootstrap, *options, *delimiters, data=BETWEEN_RECORDS.join(lines))

    stored = client_confluent.stored_records(broker_bootstrap, topic)
    assert len(stored) == workload.RECORD_COUNT
    for found, sent in zip(stored, workload.expected_records(), strict=True):
        # kcat writes null for an empty key and, with -Z, for an empty value.
        expected = (sent.partition, sent.offset, sent.key or None, sent.value or None, HEADERS)
        assert (found.partition, found.offset, found.key, found.value, found.headers) == expected
    assert {attributes & 7 for _, _, attributes, _ in Asker(broker_bootstrap).stored(topic)} == {0, 1, 2, 3, 4}
    client_confluent.delete(admin, topic)


def _line(item: Record) -> bytes:
    value = item.value or b""
    return value if item.key is None else item.key + BETWEEN_KEY_AND_VALUE + value


def test_consume(broker_bootstrap: str, reference_topic: str) -> None:
    """kcat prints every field of every record; the whole output is compared."""
    form = r"%p %o %T %K %S %h|%k|%s\n"
    records = workload.expected_records()
    for partition in range(workload.PARTITION_COUNT):
        options = ["-C", "-q", "-e", "-o", "beginning", "-t", reference_topic, "-p", str(partition), "-f", form]
        printed = _kcat(broker_bootstrap, *options)
        assert printed == b"".join(_printed(item) for item in records if item.partition == partition)


def _printed(item: Record) -> bytes:
    key_size = -1 if item.key is None else len(item.key)
    value_size = -1 if item.value is None else len(item.value)
    headers = b",".join(name.encode() + b"=" + _as_text(value) for name, value in item.headers)
    numbers = f"{item.partition} {item.offset} {item.timestamp_ms} {key_size} {value_size} "
    return numbers.encode() + headers + b"|" + (item.key or b"") + b"|" + (item.value or b"") + b"\n"


def _as_text(value: bytes | None) -> bytes:
    """A header value as kcat prints it: as a C string, so only up to the first zero byte."""
    return b"NULL" if value is None else value.split(b"\x00")[0]


def test_offsets_by_time(broker_bootstrap: str, reference_topic: str) -> None:
    """Query mode, one partition at a time."""
    expected = workload.expected_report("read")["seek"]
    for partition, offsets in expected.items():
        for time_ms, offset in zip(workload.SEEK_MS, offsets, strict=True):
            printed = _kcat(broker_bootstrap, "-Q", "-t", f"{reference_topic}:{partition}:{time_ms}")
            assert printed.decode().split()[-1] == str(offset)


def test_metadata(broker_bootstrap: str, reference_topic: str) -> None:
    """The list of partitions."""
    import json

    listed = json.loads(_kcat(broker_bootstrap, "-L", "-J", "-t", reference_topic))
    (found,) = listed["topics"]
    assert [partition["partition"] for partition in found["partitions"]] == [0, 1, 2]
