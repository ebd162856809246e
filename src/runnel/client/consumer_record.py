"""Records as a consumer hands them out one by one."""

from collections.abc import Iterator
from typing import NamedTuple

from runnel.client.fetch import Fetched
from runnel.client.isolation import visible_batches
from runnel.records.record import Headers
from runnel.records.row_tuple import read_tuples


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
    """The records of a fetch that the reader may see; raises `RecordError` where the data is damaged."""
    topic, partition, start = fetched.topic, fetched.partition, fetched.offset
    for position, header in visible_batches(fetched.data, fetched.aborted, check_crcs=check_crcs):
        yield from read_tuples(fetched.data, position, header, start, ConsumerRecord, topic, partition)
