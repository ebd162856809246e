"""Batches that say what a test wants them to say, true or not."""

from collections.abc import Sequence
from typing import TypeAlias

from tailrace.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, read_header, write_crc
from tailrace.records.builder import BatchBuilder

# What a record is made of: its timestamp, key, value and headers.
RecordFields: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]


def make_batch(*, body: bytes | None = None, crc: int | None = None, **fields: int) -> bytearray:
    """A good batch of three records with some header fields or the body replaced, and a checksum that fits."""
    builder = BatchBuilder()
    for index in range(3):
        builder.append(1_000 + index, b"key", b"value", [("name", b"header"), ("null", None)])
    batch = bytearray(builder.build())
    if body is not None:
        batch[HEADER_SIZE:] = body
        fields.setdefault("batch_length", len(batch) - LOG_OVERHEAD)
    header = read_header(batch)._replace(batch_length=len(batch) - LOG_OVERHEAD)
    HEADER.pack_into(batch, 0, *header._replace(**fields))
    write_crc(batch, 0, len(batch))
    if crc is not None:
        HEADER.pack_into(batch, 0, *HEADER.unpack_from(batch)[:4], crc, *HEADER.unpack_from(batch)[5:])
    return batch
