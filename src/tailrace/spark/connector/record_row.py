"""Records as rows, with the columns that a dead letter keeps; and the lookup of the records of rejected rows."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tailrace.base.limits import SPARK_RECORD_GAP_MAX
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.client_setting import parse_client_settings
from tailrace.spark.data_loss import Loss
from tailrace.spark.dead_letter import Fault, Rejected, Stage
from tailrace.spark.error import BrokerError, RetriableBrokerError
from tailrace.spark.plan import OffsetRange
from tailrace.spark.record_place import RecordPlace
from tailrace.spark.topic_io import TopicIO, topic_io

log = logging.getLogger("tailrace.spark.pipeline")

RECORD = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
"""The columns of a record that a dead letter keeps."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMEOUT_MS = 30_000


def read_record(row: Mapping[str, Any], fault: Fault, stage: Stage = Stage.DECODE) -> Rejected:
    """Return a rejected record, with the columns `RECORD`."""
    headers = tuple((each["key"], each["value"]) for each in row.get("headers") or ())
    at, timestamp_ms = row.get("timestamp"), row.get("timestamp_ms")
    return Rejected(
        stage,
        fault,
        row.get("value"),
        row.get("key"),
        headers,
        row["topic"],
        row["partition"],
        row["offset"],
        timestamp_ms if at is None else (at - _EPOCH) // timedelta(milliseconds=1),
    )


def find_records(rejected: Iterable[Rejected], reader_options: Mapping[str, str]) -> Iterator[Rejected]:
    """Yield rejected rows as the records that they were made of, one by one, with the first such row beside it.

    A row whose record has been deleted, is behind the end of its partition, or is not known, stays a row.
    """
    rows: dict[RecordPlace, dict[str, Rejected]] = {}
    for each in rejected:
        if each.is_row and each.place is not None:
            rows.setdefault(each.place, {}).setdefault(each.fault.reason, each)
        else:
            yield each
    for place, record in _read(set(rows), reader_options):
        for row in rows.pop(place, {}).values():
            yield replace(read_record(record, row.fault, row.stage), row=row.value)
    yield from (_without_record(row) for kept in rows.values() for row in kept.values())


def merge_places(places: Iterable[RecordPlace]) -> list[OffsetRange]:
    """Return ranges with all of these places, and few other ones."""
    ranges: list[OffsetRange] = []
    for topic, partition, offset in sorted(places):
        last = ranges[-1] if ranges else None
        if (
            last is not None
            and (last.topic, last.partition) == (topic, partition)
            and offset - last.end <= SPARK_RECORD_GAP_MAX
        ):
            ranges[-1] = last._replace(end=offset + 1)
        else:
            ranges.append(OffsetRange(topic, partition, offset, offset + 1))
    return ranges


def _read(places: set[RecordPlace], options: Mapping[str, str]) -> Iterator[tuple[RecordPlace, dict[str, Any]]]:
    """Yield the records at these places that can be read; raises temporary errors."""
    if not places:
        return
    io = topic_io(parse_client_settings(options))
    try:
        ranges = list(_before_end(merge_places(places), io))
        for batch in io.read(ranges, RECORD, timeout_ms=_TIMEOUT_MS, loss=Loss(is_failure=False)):
            yield from _chosen(batch, places)
    except RetriableBrokerError:
        raise
    except BrokerError as error:
        log.warning("the records of rejected rows cannot be read: %s", error)


def _before_end(ranges: Iterable[OffsetRange], io: TopicIO) -> Iterator[OffsetRange]:
    """Yield what exists of some ranges: a fetch at the end of a partition would wait for a record to be written.

    A partition ends before the record of a row if its topic was deleted and created again, or has lost records.
    """
    asked = tuple(ranges)
    partitions = sorted({TopicPartition(one.topic, one.partition) for one in asked})
    _, ends = io.edges(partitions, patience_ms=_TIMEOUT_MS)
    for one in asked:
        end = ends[TopicPartition(one.topic, one.partition)]
        if one.end > end:
            log.warning(
                "%s-%d ends at offset %d, so it does not have the records of rejected rows at offsets %d to %d; "
                "the dead letters of these rows hold the rows alone",
                *(one.topic, one.partition, end, max(one.start, end), one.end - 1),
            )
        if one.start < end:
            yield one._replace(end=min(one.end, end))


def _chosen(batch: Any, places: set[RecordPlace]) -> Iterator[tuple[RecordPlace, dict[str, Any]]]:
    """Yield the records of an Arrow batch that are at one of these places."""
    # A timestamp can be one that Python's dates do not have.
    times_us = batch.column("timestamp").cast("int64").to_pylist()
    columns = [batch.column(name).to_pylist() for name in ("topic", "partition", "offset")]
    rest = batch.drop_columns(["timestamp"])
    for index, place in enumerate(map(RecordPlace, *columns)):
        if place in places:
            yield place, rest.slice(index, 1).to_pylist()[0] | {"timestamp_ms": times_us[index] // 1000}


def _without_record(row: Rejected) -> Rejected:
    fault = replace(row.fault, reason=f"{row.place}: {row.fault.reason}")
    return replace(row, fault=fault, topic=None, partition=None, offset=None)
