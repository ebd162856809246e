"""JSON with a JSON Schema."""

import json
from itertools import accumulate
from typing import Any

from tailrace.schema.codec.core import Codec
from tailrace.schema.codec.error import InvalidRow
from tailrace.schema.codec.json_text import check_value, read_value
from tailrace.schema.error import CodecError
from tailrace.schema.frame import frame
from tailrace.schema.json_schema import JsonSchema, parse
from tailrace.schema.language import Imports, SchemaType


class JsonCodec(Codec[JsonSchema]):
    """Encodes values that `json` can write. They are validated on the way in and out unless `validate=False`."""

    language = SchemaType.JSON

    def __init__(self, *arguments: Any, validate: bool = True, **options: Any) -> None:
        """Take the options of every codec, and whether to validate."""
        super().__init__(*arguments, **options)
        self._validate = validate

    def _parse(self, text: str, imports: Imports) -> JsonSchema:
        return parse(text, imports)

    def _name_of(self, parsed: JsonSchema) -> str | None:
        return parsed.name

    def _write(self, parsed: JsonSchema, value: Any) -> bytes:
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise CodecError(f"{self._place()} cannot be written as JSON: {error}") from None
        if self._validate:
            try:
                check_value(value, parsed)
            except CodecError as error:
                raise CodecError(f"{self._place()} {error}") from None
        return text.encode()

    def _read(self, parsed: JsonSchema, data: bytes, at: int) -> Any:
        return read_value(data[at:], (self.reader() or parsed) if self._validate else None)

    # --- columns

    def encode_column(self, rows: Any) -> Any:
        """Return a binary column with a framed value for each row of a table, written row by row."""
        import pyarrow as pa

        schema_id, parsed = self.writer()
        start = frame(schema_id)
        values = []
        for number, row in enumerate(rows.to_pylist()):
            try:
                values.append(None if row is None else start + self._write(parsed, row))
            except CodecError as error:
                raise InvalidRow(self._place(), number, str(error).removeprefix(f"{self._place()} ")) from None
        return pa.chunked_array([pa.array(values, pa.binary())])

    def decode_column(self, column: Any) -> Any:
        """Return a table with a row for each framed value of a binary column. Null becomes a row of nulls.

        Arrow reads the values, which have to be objects. Its types come from the codec's schema, or from that with the
        highest id; a property that the schema does not describe gets the type of its values. The values are validated
        as `decode` does it. Raise `InvalidRow` for the first one that is invalid.
        """
        import pyarrow as pa

        from tailrace.records.arrow.avro_decode import schema_ids
        from tailrace.schema.codec.json_column import ObjectReader, arrow_fields

        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        chunks = [chunk.cast(pa.binary()) for chunk in chunks]
        ids = sorted({each for chunk in chunks for each in schema_ids(chunk)})
        schemas = {frame(each): self.parsed(each) for each in ids}
        own = self.reader()
        described = own or (schemas[frame(ids[-1])] if ids else None)
        fields = [] if described is None else arrow_fields(json.loads(described.text))
        rules = [] if not self._validate else [(b"", own)] if own is not None else list(schemas.items())
        reader = ObjectReader(fields, rules, self._place())
        firsts = accumulate((len(chunk) for chunk in chunks), initial=0)
        tables = [reader.read(chunk, first) for chunk, first in zip(chunks, firsts, strict=False)]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.schema(fields).empty_table()
