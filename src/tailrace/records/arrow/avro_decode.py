"""The decoder from a column of framed Avro values to an Arrow column.

    decoder = AvroDecoder(schema_type, schema_id=7)
    for record_batch in reader:
        rows = decoder.decode(record_batch["value"])

Serializers of Confluent's registry frame a value: a zero, the id of the schema in four bytes, the value. All values of
a call have the same id; `schema_ids` tells those of a column.
"""

from typing import Any

from tailrace.records.arrow.avro_plan import Column, Fault, Op, make_plan
from tailrace.records.arrow.avro_read import ValueFault, ValueReader
from tailrace.records.arrow.schema import pa
from tailrace.records.avro.type import Type
from tailrace.records.error import RecordError
from tailrace.records.native import find_native
from tailrace.records.schema_id import FRAME_SIZE

EMPTY_ITEMS_MAX = 10_000_000
"""Items without bytes, such as nulls in an array, in one call. A few bytes could claim billions of them."""


class AvroValueError(RecordError):
    """A value that its schema does not describe. The message names the row."""

    def __init__(self, row: int, fault: Fault) -> None:
        super().__init__(f"row {row}: not a valid Avro value: {fault.text}")
        self.row = row
        self.fault = fault


class AvroDecoder:
    """Decodes columns of values that were written with one schema."""

    def __init__(self, type_: Type, schema_id: int) -> None:
        """Raise `UnsupportedAvroType` if the schema is recursive."""
        self._plan = make_plan(type_)
        self._schema_id = schema_id
        self._native = find_native("AvroReader")

    @property
    def type(self) -> Any:
        """The Arrow type of a decoded column; a struct for a record."""
        return self._plan.column.type

    def decode(self, column: Any) -> Any:
        """Return the values of a binary column. Null stays null. Raise `AvroValueError` at the first wrong value."""
        if not pa.types.is_binary(column.type):
            column = column.cast(pa.binary())
        if isinstance(column, pa.ChunkedArray):
            return pa.chunked_array([self.decode(chunk) for chunk in column.chunks], self.type)
        try:
            return self._decode_in_python(column) if self._native is None else self._decode_natively(column)
        except pa.ArrowInvalid:
            # A string is not UTF-8, which Arrow does not locate.
            return self._decode_in_python(column)

    def _decode_in_python(self, column: Any) -> Any:
        reader = ValueReader(self._plan.nodes, self._plan.column, EMPTY_ITEMS_MAX)
        rows: list[Any] = []
        bad_text_row: int | None = None
        for row, value in enumerate(column.to_pylist()):
            try:
                rows.append(None if value is None else reader.read(value, self._schema_id))
            except ValueFault as error:
                raise AvroValueError(row, error.fault) from None
            if reader.has_bad_text and bad_text_row is None:
                bad_text_row = row
        if bad_text_row is not None:
            raise AvroValueError(bad_text_row, Fault.BAD_TEXT)
        return pa.array(rows, self.type)

    def _decode_natively(self, column: Any) -> Any:
        reader = self._native(self._plan.nodes, EMPTY_ITEMS_MAX)
        validity, offsets, data = column.buffers()
        if len(column):
            bitmap = validity if column.null_count else None
            fault = reader.read(bitmap, offsets, data or b"", column.offset, len(column), self._schema_id)
            if fault is not None:
                raise AvroValueError(fault[0], Fault(fault[1]))
        return _assemble(reader, self._plan.column)


def schema_ids(column: Any) -> list[int]:
    """Return the ids of the schemas of a column's values, each once. Raise `AvroValueError` for an unframed value."""
    import pyarrow.compute as pc

    frames = pc.unique(pc.binary_slice(column.cast(pa.binary()), 0, FRAME_SIZE)).drop_null().to_pylist()
    if any(len(frame) < FRAME_SIZE or frame[0] != 0 for frame in frames):
        is_framed = pc.starts_with(column, b"\x00")
        row = next((i for i, ok in enumerate(is_framed.to_pylist()) if ok is False), 0)
        raise AvroValueError(row, Fault.FRAME)
    return [int.from_bytes(frame[1:]) for frame in frames]


def _assemble(reader: Any, column: Column) -> Any:
    """Make an Arrow array of the buffers that the reader filled."""
    count, null_count, validity, offsets, data = reader.take(column.index)
    bitmap = pa.py_buffer(validity) if null_count else None
    children = [_assemble(reader, child) for child in column.children]
    if column.op is Op.NULL:
        return pa.nulls(count)
    if column.op in (Op.RECORD, Op.UNION):
        return pa.Array.from_buffers(column.type, count, [bitmap], null_count, children=children)
    if column.op is Op.MAP:
        entries = pa.StructArray.from_arrays(children, fields=[column.type.key_field, column.type.item_field])
        children = [entries]
    if column.op in (Op.ARRAY, Op.MAP):
        buffers = [bitmap, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(column.type, count, buffers, null_count, children=children)
    if column.op is Op.ENUM:
        indices = pa.Array.from_buffers(pa.int32(), count, [bitmap, pa.py_buffer(data)], null_count)
        return pa.DictionaryArray.from_arrays(indices, pa.array(column.names, pa.string())).dictionary_decode()
    buffers = [bitmap, pa.py_buffer(offsets)] if column.op is Op.BYTES else [bitmap]
    array = pa.Array.from_buffers(column.type, count, [*buffers, pa.py_buffer(data)], null_count)
    if column.is_text:
        array.validate(full=True)
    return array
