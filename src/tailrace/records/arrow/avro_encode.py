"""The encoder from Arrow columns to a column of framed Avro values.

    encoder = AvroEncoder(schema_type, schema_id=7)
    values = encoder.encode(record_batch)

The columns have the names of the schema's fields. They are cast to the types that `avro_plan.py` lists if that loses
nothing. A field that may be null need not have a column.
"""

from typing import Any

from tailrace.records.arrow.avro_decode import AvroValueError
from tailrace.records.arrow.avro_plan import Fault, Op, make_plan
from tailrace.records.arrow.avro_read import ValueFault
from tailrace.records.arrow.avro_source import Source, SourceFinder
from tailrace.records.arrow.avro_write import ValueWriter
from tailrace.records.arrow.schema import pa
from tailrace.records.avro.type import Type
from tailrace.records.native import find_native


class AvroEncoder:
    """Encodes rows with one schema."""

    def __init__(self, type_: Type, schema_id: int) -> None:
        """Raise `UnsupportedAvroType` if the schema is recursive."""
        self._plan = make_plan(type_)
        self._frame = b"\x00" + schema_id.to_bytes(4)
        self._native = find_native("write_avro")

    def encode(self, rows: Any) -> Any:
        """Return a binary column with a value for each row of a record batch, or of an array for other schemas.

        A row that is null becomes a null value, unless the schema is a union with null. Raise `ColumnTypeError` if a
        column is missing or has another type, and `AvroValueError` at the first row that the schema does not allow.
        """
        array = rows.to_struct_array() if isinstance(rows, pa.RecordBatch) else rows
        source = SourceFinder(self._plan.nodes).find(array, self._plan.column, "the rows")
        return self._encode_in_python(source) if self._native is None else self._encode_natively(source)

    def _encode_natively(self, source: Source) -> Any:
        buffers: list[Any] = [None] * len(self._plan.nodes)
        _collect(source, buffers)
        row_count = len(source.array)
        written = self._native(self._plan.nodes, buffers, row_count, self._frame)
        if isinstance(written[0], int):
            raise AvroValueError(written[0], Fault(written[1]))
        validity = None
        if source.array.null_count and self._plan.nodes[0].null_branch < 0 and source.column.op is not Op.NULL:
            validity = source.array.is_valid().buffers()[1]
        return pa.Array.from_buffers(pa.binary(), row_count, [validity, *map(pa.py_buffer, written)])

    def _encode_in_python(self, source: Source) -> Any:
        writer = ValueWriter(self._plan.nodes, source, self._frame)
        values: list[bytes | None] = []
        for row in range(len(source.array)):
            try:
                values.append(writer.write(row))
            except ValueFault as error:
                raise AvroValueError(row, error.fault) from None
        return pa.array(values, pa.binary())


def _collect(source: Source, buffers: list[Any]) -> None:
    buffers[source.column.index] = source.buffers()
    for child in source.children:
        _collect(child, buffers)
