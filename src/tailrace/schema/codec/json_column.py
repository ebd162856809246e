"""Columns of JSON texts, read by Arrow's own reader of lines and validated by their columns where that is enough."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tailrace.base.sentinel import INT32_MAX
from tailrace.records.schema_id import FRAME_SIZE
from tailrace.schema.codec.error import InvalidRow
from tailrace.schema.codec.json_proof import Proof, make_proof
from tailrace.schema.codec.json_text import read_value
from tailrace.schema.error import CodecError
from tailrace.schema.json_schema import JsonSchema

_SCALARS = {"integer": pa.int64(), "number": pa.float64(), "string": pa.string(), "boolean": pa.bool_()}
_OBJECT = r"(?s)^\s*\{.*\}\s*$"
_BLOCK_BYTES = 1 << 20
"""How much Arrow parses at a time; one value has to fit, so a longer one enlarges it."""


def arrow_fields(schema: Any) -> list[Any]:
    """Return the fields whose types a JSON Schema states without alternatives or references."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    found = ((name, _arrow_type(each)) for name, each in (properties or {}).items())
    return [pa.field(name, type_) for name, type_ in found if type_ is not None]


def _arrow_type(schema: Any) -> Any:
    """Return the Arrow type of a schema; None if it does not say or allows several."""
    if not isinstance(schema, Mapping):
        return None
    named = schema.get("type")
    kinds = [kind for kind in ([named] if isinstance(named, str) else named or ()) if kind != "null"]
    if len(kinds) != 1:
        return None
    if kinds[0] == "array":
        items = _arrow_type(schema.get("items"))
        return None if items is None else pa.list_(items)
    if kinds[0] == "object":
        fields = arrow_fields(schema)
        return pa.struct(fields) if fields and len(fields) == len(schema["properties"]) else None
    return _SCALARS.get(kinds[0])


class ObjectReader:
    """Reads framed objects to the columns of `fields`.

    Each rule is a schema and the frame of the values that have to fit it; an empty frame stands for all values.
    """

    def __init__(self, fields: list[Any], rules: Sequence[tuple[bytes, JsonSchema]], place: str) -> None:
        self._fields = fields
        self._rules = [(start, schema, make_proof(json.loads(schema.text))) for start, schema in rules]
        self._place = place

    def read(self, column: Any, first_row: int) -> Any:
        """Return a table of the objects of a binary array, whose first one is row `first_row` in errors."""
        framed = column.drop_null()
        texts = pc.binary_slice(framed, FRAME_SIZE, INT32_MAX)  # without an end, pyarrow 26 fails
        if len(texts) == 0:
            nulls = [pa.nulls(len(column), field.type) for field in self._fields]
            return pa.table(nulls, schema=pa.schema(self._fields))
        rows = pc.indices_nonzero(column.is_valid())
        table, problem = self._parse(texts)
        fault = self._find_fault(framed, texts, table)
        if fault is not None:
            raise InvalidRow(self._place, first_row + rows[fault[0]].as_py(), fault[1])
        if problem is not None:
            raise CodecError(f"{self._place}: {problem}")
        if not column.null_count:
            return table
        positions = pa.array(range(len(texts)), pa.int64())
        return table.take(pc.replace_with_mask(pa.nulls(len(column), pa.int64()), column.is_valid(), positions))

    def _parse(self, texts: Any) -> tuple[Any, str | None]:
        """Return the table of some texts, or None and the problem."""
        count = len(texts)
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), texts), b"\n")[0].as_buffer()
        longest = pc.max(pc.binary_length(texts)).as_py()
        reading = pj.ReadOptions(block_size=max(_BLOCK_BYTES, 2 * longest + 2))
        parsing = pj.ParseOptions(
            explicit_schema=pa.schema(self._fields), newlines_in_values=True, unexpected_field_behavior="infer"
        )
        try:
            table = pj.read_json(io.BytesIO(joined), read_options=reading, parse_options=parsing)
            for column in table.columns:
                if pa.types.is_nested(column.type):
                    column.validate(full=True)  # pyarrow 26 makes lists that are too short of nulls without a type
        except pa.ArrowInvalid as error:
            return None, f"a column of JSON cannot be read: {error}"
        # Two objects in one value and none in another have as many rows as there are values.
        if table.num_rows != count or not pc.all(pc.match_substring_regex(texts, _OBJECT)).as_py():
            return None, f"a column of {count} values holds {table.num_rows} JSON objects"
        return table, None

    def _find_fault(self, framed: Any, texts: Any, table: Any) -> tuple[int, str] | None:
        """Return the first row that is wrong, and why. Without a table, every row is looked at."""
        faults = [_first_fault(pa.repeat(table is None, len(texts)), texts, None)]
        for start, schema, doubtful in self._doubts(texts, table):
            chosen = pc.and_(doubtful, pc.starts_with(framed, start)) if start else doubtful
            faults.append(_first_fault(chosen, texts, schema))
        return min((fault for fault in faults if fault is not None), default=None)

    def _doubts(self, texts: Any, table: Any) -> list[tuple[bytes, JsonSchema, Any]]:
        """Return for each rule which rows the columns do not prove to fit it."""
        if not self._rules:
            return []
        if table is None or not table.num_columns:
            return [(start, schema, pa.repeat(True, len(texts))) for start, schema, _ in self._rules]
        nulls = pc.match_substring(texts, b"null")
        return [(start, schema, _unproven(proof, table, nulls)) for start, schema, proof in self._rules]


def _unproven(proof: Proof | None, table: Any, nulls: Any) -> Any:
    """Return which rows of a table the columns do not prove to be valid."""
    if proof is None:
        return pa.repeat(True, table.num_rows)
    masks, start = [], 0
    for batch in table.to_batches():
        rows = batch.to_struct_array()  # not joined with the others, which fails if an object has no properties
        masks.append(pc.invert(proof.check(rows, nulls.slice(start, len(rows)))))
        start += len(rows)
    return pa.concat_arrays(masks)


def _first_fault(doubtful: Any, texts: Any, schema: JsonSchema | None) -> tuple[int, str] | None:
    """Return the first of the doubtful rows that is wrong, and why."""
    for row in pc.indices_nonzero(doubtful).to_pylist():
        try:
            value = read_value(texts[row].as_py(), schema)
        except CodecError as error:
            return row, str(error)
        if not isinstance(value, dict):
            return row, "it is not a JSON object, so it has no columns"
    return None
