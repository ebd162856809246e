"""The workload of `workload.md`: its records, its digest, and what each phase must report."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

RECORD_COUNT = 10_000
PARTITION_COUNT = 3
REPLICATION_FACTOR = -1  # what the broker gives to those who do not say
PARTITION_COUNT_AFTER = 5
START_MS = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS_PER_CODEC = RECORD_COUNT // len(CODECS)
SEEK_MS = (START_MS, START_MS + 4321, START_MS + 9999, START_MS + 10_000)
TOPIC_CONFIG = {"retention.ms": "-1"}
CHANGED_CONFIG = {"retention.ms": "-1", "max.message.bytes": "1234567"}
DELETE_BEFORE = 100
PHASES = ("write", "read", "change")

T = TypeVar("T")
Report = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """One record with the place it has in the topic."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def without_null_headers(self) -> Record:
        """The same with empty header values for null ones."""
        return replace(self, headers=tuple((name, value or b"") for name, value in self.headers))


def record(index: int) -> Record:
    """The record with that index."""
    return Record(
        partition=index % PARTITION_COUNT,
        offset=index // PARTITION_COUNT,
        timestamp_ms=START_MS + index,
        key=_key(index),
        value=_value(index),
        headers=_headers(index),
    )


def _key(index: int) -> bytes | None:
    return {3: None, 9: b""}.get(index % 10, b"key-%d" % index)


def _value(index: int) -> bytes | None:
    length = (index * 37) % 300
    return {5: None, 7: b""}.get(index % 10, bytes((31 * index + 7 * j) % 256 for j in range(length)))


def _headers(index: int) -> tuple[tuple[str, bytes | None], ...]:
    choices: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
        (),
        (("trace", b"%d" % index),),
        (("empty", b""), ("null", None)),
        (("twin", b"1"), ("twin", b"2")),
        (("binary", bytes((0, 255, index % 256))), ("ключ", "значение".encode())),
    )
    return choices[index % 5]


def by_codec(*, null_headers: bool = True) -> Iterator[tuple[str, list[Record]]]:
    """Each codec with the records to send through it, in order."""
    for number, codec in enumerate(CODECS):
        indexes = range(number * RECORDS_PER_CODEC, (number + 1) * RECORDS_PER_CODEC)
        records = [record(index) for index in indexes]
        yield codec, records if null_headers else [item.without_null_headers() for item in records]


def expected_records(*, null_headers: bool = True) -> list[Record]:
    """All records by partition and offset."""
    records = [item for _, part in by_codec(null_headers=null_headers) for item in part]
    return sorted(records, key=lambda item: (item.partition, item.offset))


def digest(records: Iterable[Record]) -> str:
    """SHA-256 over records that are already ordered by partition and offset."""
    sha = hashlib.sha256()
    for item in records:
        sha.update(struct.pack(">iqq", item.partition, item.offset, item.timestamp_ms))
        sha.update(_sized(item.key) + _sized(item.value) + struct.pack(">i", len(item.headers)))
        for name, value in item.headers:
            sha.update(_sized(name.encode()) + _sized(value))
    return sha.hexdigest()


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def expected_report(phase: str, *, null_headers: bool = True) -> Report:
    """What a client that can do everything reports of a phase."""
    if phase == "write":
        config = {**TOPIC_CONFIG, "cleanup.policy": "delete"}
        return {"partitions": PARTITION_COUNT, "config": config, "produced": RECORD_COUNT}
    if phase == "read":
        records = expected_records(null_headers=null_headers)
        return {"count": RECORD_COUNT, "digest": digest(records), "seek": _seek(records)}
    return {
        "config": CHANGED_CONFIG,
        "partitions": PARTITION_COUNT_AFTER,
        "earliest": DELETE_BEFORE,
        "gone": True,
    }


def _seek(records: list[Record]) -> dict[str, list[int]]:
    offsets: dict[str, list[int]] = {}
    for partition in range(PARTITION_COUNT):
        own = [item for item in records if item.partition == partition]
        offsets[str(partition)] = [
            next((item.offset for item in own if item.timestamp_ms >= time_ms), -1) for time_ms in SEEK_MS
        ]
    return offsets


def read_report(records: list[Record], seek: dict[str, list[int]]) -> Report:
    """The report of the phase `read` for records in any order of partitions."""
    ordered = sorted(records, key=lambda item: (item.partition, item.offset))
    return {"count": len(ordered), "digest": digest(ordered), "seek": seek}
