"""The schema ids of a batch's records, in the frame of Confluent's serializers: a zero byte and a 4-byte id.

The walk looks at the first five bytes of each key or value and creates no object for a record. There are two versions:
the Python one below, which defines the behaviour, and one in C in `_schema_id.pxi`.
"""

from collections.abc import Callable

from tailrace.base.limits import RECORD_ERRORS_PER_BATCH_MAX, SCHEMA_IDS_PER_BATCH_MAX
from tailrace.base.record_part import RecordPart
from tailrace.records.batch import Buffer
from tailrace.records.native import find_native
from tailrace.records.varint import VarintCut, VarintTooLong, read_varint, read_varlong
from tailrace.records.walk import WalkError, WalkFault, skip_field

SchemaIds = dict[int, tuple[int, ...]]
"""The indexes of the first records with each id, as an unsigned number. `TOO_SHORT` and `WRONG_MAGIC` are in place of
an id for records that have none. Keys and values that are null are left out."""

TOO_SHORT = -1
WRONG_MAGIC = -2

FRAME_MAGIC = 0
FRAME_SIZE = 5
"""The first byte of a framed key or value, and the size of the frame."""

CollectFunction = Callable[[Buffer, int, int, int, bool], SchemaIds]


def collect_schema_ids_python(buffer: Buffer, position: int, end: int, count: int, is_key: bool) -> SchemaIds:
    """Return the ids of `count` validated records between `position` and `end`; stop at the limit of ids."""
    if not 0 <= position <= end <= len(buffer):
        raise ValueError("the records are not within the buffer")
    data = bytes(memoryview(buffer)[position:end])
    found: dict[int, list[int]] = {}
    at = 0
    try:
        for index in range(count):
            field, at = _read_framed_field(data, at, is_key)
            if field is None:
                continue
            schema_id = _schema_id(field)
            if schema_id not in found and len(found) == SCHEMA_IDS_PER_BATCH_MAX:
                break
            records = found.setdefault(schema_id, [])
            if len(records) < RECORD_ERRORS_PER_BATCH_MAX:
                records.append(index)
    except (WalkFault, VarintCut, VarintTooLong):
        raise ValueError("the records were not validated") from None
    return {schema_id: tuple(records) for schema_id, records in found.items()}


def _read_framed_field(data: bytes, at: int, is_key: bool) -> tuple[bytes | None, int]:
    """Return the first bytes of the record's key or value, None for null, and the position of the next record."""
    size, at = read_varint(data, at, len(data))
    end = at + size
    if size <= 0 or end > len(data):
        raise WalkFault(WalkError.RECORD_SIZE)
    _, at = read_varlong(data, at + 1, end)
    _, at = read_varint(data, at, end)
    field_size, at = skip_field(data, at, end, -1, WalkError.FIELD_SIZE)
    if not is_key:
        field_size, at = skip_field(data, at, end, -1, WalkError.FIELD_SIZE)
    if field_size < 0:
        return None, end
    start = at - field_size
    return data[start : start + min(field_size, FRAME_SIZE)], end


def _schema_id(field: bytes) -> int:
    if len(field) < FRAME_SIZE:
        return TOO_SHORT
    if field[0] != FRAME_MAGIC:
        return WRONG_MAGIC
    return int.from_bytes(field[1:FRAME_SIZE], "big")


_collect: CollectFunction = find_native("collect_schema_ids") or collect_schema_ids_python


def collect_schema_ids(buffer: Buffer, count: int, part: RecordPart) -> SchemaIds:
    """Return the schema ids in the keys or values of `count` validated records, which fill the buffer.

    A batch with `SCHEMA_IDS_PER_BATCH_MAX` ids may have more, which are left out.
    """
    return _collect(buffer, 0, len(buffer), count, part == "key")
