"""Avro: single values by fastavro, columns by the native codec of `records/arrow`."""

import io
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, TypeVar

from tailrace.records.avro.type import Type
from tailrace.schema.avro.schema import AvroSchema, parse
from tailrace.schema.codec.avro_default import prepare_for_reading, prepare_for_writing
from tailrace.schema.codec.core import Codec
from tailrace.schema.error import CodecError
from tailrace.schema.frame import frame
from tailrace.schema.language import Imports, SchemaType

T = TypeVar("T")


class LoadedAvro:
    """A schema in the forms that reading and writing need."""

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema

    @property
    def root(self) -> Type:
        """The type of the values."""
        return self.schema.root

    @cached_property
    def for_writing(self) -> Any:
        """The schema as fastavro compiles it for values that are written."""
        return prepare_for_writing(self.schema)

    @cached_property
    def for_reading(self) -> Any:
        """The schema as fastavro compiles it for values that are read."""
        return prepare_for_reading(self.schema)


class AvroCodec(Codec[LoadedAvro]):
    """Encodes dictionaries, or the values of other Avro types, and tables of Arrow."""

    language = SchemaType.AVRO

    def _parse(self, text: str, imports: Imports) -> LoadedAvro:
        return LoadedAvro(parse(text, imports, is_new=False))

    def _name_of(self, parsed: LoadedAvro) -> str | None:
        return parsed.schema.name

    def _write(self, parsed: LoadedAvro, value: Any) -> bytes:
        import fastavro

        output = io.BytesIO()
        try:
            fastavro.schemaless_writer(output, parsed.for_writing, value, strict_allow_default=True)
        except Exception as error:  # fastavro raises what the value makes Python raise
            raise CodecError(f"{self._place()} does not fit the schema: {error or type(error).__name__}") from error
        return output.getvalue()

    def _read(self, parsed: LoadedAvro, data: bytes, at: int) -> Any:
        import fastavro

        reader = self.reader()
        stream = io.BytesIO(data)
        stream.seek(at)
        try:
            own = None if reader is None else reader.for_reading
            value = fastavro.schemaless_reader(stream, parsed.for_reading, own)
        except Exception as error:  # damaged bytes make fastavro raise many kinds
            raise CodecError(f"not a valid Avro value: {str(error) or type(error).__name__}") from error
        if stream.tell() != len(data):
            raise CodecError(f"not a valid Avro value: {len(data) - stream.tell()} bytes follow its end")
        return value

    # --- columns

    def encode_column(self, rows: Any) -> Any:
        """Return a binary column with a framed value for each row of a table, without an object for each row."""
        import pyarrow as pa

        from tailrace.records.arrow.avro_encode import AvroEncoder

        schema_id, parsed = self.writer()
        encoder = AvroEncoder(parsed.root, schema_id)
        batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        return pa.chunked_array([encoder.encode(batch) for batch in batches], pa.binary())

    def decode_column(self, column: Any) -> Any:
        """Return a table with a row for each framed value of a binary column. Null becomes a row of nulls.

        Values of several schemas become those of the codec's schema; without one, those of the highest id among them.
        """
        import pyarrow as pa

        from tailrace.records.arrow.avro_decode import schema_ids

        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        chunks = [chunk.cast(pa.binary()) for chunk in chunks]
        ids = sorted({each for chunk in chunks for each in schema_ids(chunk)})
        reader = self.reader() or (self.parsed(ids[-1]) if ids else None)
        if reader is None:
            raise CodecError(f"{self._place()}: a column without values has no schema; pass schema or use_latest=True")
        columns = _GroupReader(reader.root, {each: self.parsed(each).root for each in ids})
        arrays = [columns.read(chunk) for chunk in chunks]
        if pa.types.is_struct(columns.type):
            fields = list(columns.type)
            flat = [array.flatten() for array in arrays]
            parts = [pa.chunked_array([each[i] for each in flat], field.type) for i, field in enumerate(fields)]
            return pa.Table.from_arrays(parts, names=[field.name for field in fields])
        return pa.table({self._column_name(): pa.chunked_array(arrays, columns.type)})


class _GroupReader:
    """Reads the values of each schema together and puts the rows back into their order."""

    def __init__(self, reader: Type, writers: dict[int, Type]) -> None:
        from tailrace.records.arrow.avro_decode import AvroDecoder
        from tailrace.records.arrow.avro_plan import make_plan
        from tailrace.schema.avro.column_resolution import ColumnResolver

        self.type = make_plan(reader).column.type
        self._steps: dict[int, tuple[AvroDecoder, ColumnResolver]] = {
            schema_id: (AvroDecoder(writer, schema_id), ColumnResolver(reader, writer))
            for schema_id, writer in writers.items()
        }

    def read(self, column: Any) -> Any:
        """Return the values of a binary array in the reader's type."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if len(self._steps) == 1:
            return _located(self._read_group(*self._steps), column, lambda row: row)
        parts, places = [pa.nulls(0, self.type)], [pa.nulls(0, pa.uint64())]
        for schema_id in self._steps:
            rows = pc.indices_nonzero(pc.starts_with(column, frame(schema_id)))
            if len(rows):
                group = column.take(rows)
                parts.append(_located(self._read_group(schema_id), group, partial(_row_at, rows)))
                places.append(rows)
        order = pc.array_sort_indices(pa.concat_arrays(places).cast(pa.uint64()))
        if column.null_count:
            order = pc.replace_with_mask(pa.nulls(len(column), pa.uint64()), column.is_valid(), order)
        return pa.concat_arrays(parts).take(order)

    def _read_group(self, schema_id: int) -> Callable[[Any], Any]:
        decoder, resolver = self._steps[schema_id]
        return lambda column: resolver.resolve(decoder.decode(column))


def _row_at(rows: Any, row: int) -> int:
    return int(rows[row].as_py())


def _located(read: Callable[[Any], T], column: Any, row_of: Callable[[int], int]) -> T:
    """Read a column, and name the row of the whole column in errors."""
    from tailrace.records.arrow.avro_decode import AvroValueError
    from tailrace.schema.avro.column_resolution import UnresolvedValue

    try:
        return read(column)
    except AvroValueError as error:
        raise AvroValueError(row_of(error.row), error.fault) from None
    except UnresolvedValue as error:
        raise UnresolvedValue(row_of(error.row), error.reason) from None
