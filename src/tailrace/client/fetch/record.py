"""The records that a consumer returns."""

from collections.abc import Iterator
from typing import NamedTuple

from tailrace.client.fetch.isolation import visible_batches
from tailrace.client.fetch.request import Fetched
from tailrace.records.error import RecordError
from tailrace.records.record import Headers
from tailrace.records.row_tuple import read_tuples


class ConsumerRecord(NamedTuple):
    """One record with its place and time in the log."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def read_consumer_records(fetched: Fetched, *, check_crcs: bool = True) -> Iterator[ConsumerRecord]:
    """Iterate over the visible records of a fetch; raises `RecordError` if the data is damaged."""
    topic, partition, start = fetched.topic, fetched.partition, fetched.offset
    try:
        for position, header in visible_batches(fetched.data, fetched.aborted, check_crcs=check_crcs):
            yield from read_tuples(fetched.data, position, header, start, ConsumerRecord, topic, partition)
    except RecordError as error:
        raise error.at(fetched.target) from error
