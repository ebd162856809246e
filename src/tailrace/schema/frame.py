"""The frame of Confluent's serializers: a zero, the id of the schema in four bytes, then the value."""

from tailrace.records.schema_id import FRAME_MAGIC, FRAME_SIZE
from tailrace.schema.error import CodecError


def frame(schema_id: int) -> bytes:
    """Return the bytes before a value."""
    return bytes((FRAME_MAGIC,)) + schema_id.to_bytes(4)


def schema_id_of(data: bytes) -> int:
    """Return the id of the schema that a framed value was written with."""
    if len(data) < FRAME_SIZE or data[0] != FRAME_MAGIC:
        raise CodecError("the bytes do not begin with 0 and the id of a schema: they were written without a registry")
    return int.from_bytes(data[1:FRAME_SIZE])
