"""Batches whose records have rising timestamps, so that every offset can be looked up by timestamp."""

from __future__ import annotations

import os
from struct import Struct

from tailrace.records.batch import write_crc
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression

BATCH_RECORDS = 16
RECORD_BYTES = 1000
FIRST_MS = 1_700_000_000_000
_TIMES = Struct(">qq")
_TIMES_POSITION = 27


class TimedBatches:
    """A sequence of batches; the record at offset n has the timestamp FIRST_MS + n."""

    def __init__(self) -> None:
        builder = BatchBuilder(Compression.NONE)
        for number in range(BATCH_RECORDS):
            builder.append(FIRST_MS + number, None, os.urandom(RECORD_BYTES))
        self._template = bytes(builder.build())
        self.size_bytes = len(self._template)
        self.next_offset = 0

    def make(self) -> bytearray:
        """Return the batch for the next offset."""
        batch = bytearray(self._template)
        first_ms = self.timestamp_of(self.next_offset)
        _TIMES.pack_into(batch, _TIMES_POSITION, first_ms, first_ms + BATCH_RECORDS - 1)
        write_crc(batch, 0, len(batch))
        self.next_offset += BATCH_RECORDS
        return batch

    @staticmethod
    def timestamp_of(offset: int) -> int:
        """Return the timestamp of the record at an offset."""
        return FIRST_MS + offset
