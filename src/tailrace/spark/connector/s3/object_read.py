"""Objects as they are read: columns of the source's schema, whatever the object has beside them.

This runs in executors. Nothing here needs Spark.
"""

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.spark.connector.s3.object_format import ObjectFormat
from tailrace.spark.connector.s3.position import Found
from tailrace.spark.connector.s3.store import StoreSettings, store_scope
from tailrace.spark.error import ConnectorError, MalformedValue, PipelineError

_ROWS = 10_000
LINES = pa.schema([("value", pa.string()), ("object", pa.string()), ("line", pa.int64())])
"""The columns of JSON lines, which Spark decodes."""


def read_object(
    settings: StoreSettings, store: Any, found: Found, format: ObjectFormat, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an object; raises `MalformedValue` that names it."""
    place = f"{settings}/{found.name}"
    try:
        if format is ObjectFormat.PARQUET:
            batches = _parquet(settings, store, found)
        elif format is ObjectFormat.AVRO:
            batches = _avro(settings, store, found, schema)
        else:
            batches = _lines(settings, store, found, place)
        for batch in batches:
            yield _fit(batch, schema, place)
    except (pa.ArrowException, zlib.error, EOFError, OSError) as error:
        raise MalformedValue(f"object {place} is not valid {format}: {error}") from None


def object_schema(settings: StoreSettings, store: Any, found: Found, format: ObjectFormat) -> pa.Schema:
    """Return the schema that an object has in Arrow."""
    place = f"{settings}/{found.name}"
    try:
        if format is ObjectFormat.PARQUET:
            return pq.read_schema(pa.BufferReader(_read(settings, store, found)))
        from tailrace.records.arrow.avro_plan import make_plan
        from tailrace.schema.avro.schema import parse

        text = json.dumps(_avro_file(settings, store, found).writer_schema)
        return pa.schema(list(make_plan(parse(text, is_new=False).root).column.type))
    except (pa.ArrowInvalid, ValueError, TypeError) as error:
        raise PipelineError(f"the schema of object {place} cannot be read: {error}; give schema=") from None


def _read(settings: StoreSettings, store: Any, found: Found) -> pa.Buffer:
    """Return the content of an object, in the state in which it was listed."""
    import obstore
    from obstore.exceptions import PreconditionError

    options: Any = {"if_match": found.tag} if found.tag else {}
    with store_scope(settings, f"read {found.name}"):
        try:
            return pa.py_buffer(obstore.get(store, found.name, options=options).bytes())
        except PreconditionError:
            raise ConnectorError(f"{settings}/{found.name} was overwritten before it was read") from None
        except FileNotFoundError:
            raise ConnectorError(f"{settings}/{found.name} was deleted before it was read") from None


def _parquet(settings: StoreSettings, store: Any, found: Found) -> Iterator[pa.RecordBatch]:
    yield from pq.ParquetFile(pa.BufferReader(_read(settings, store, found))).iter_batches(_ROWS)


def _lines(settings: StoreSettings, store: Any, found: Found, place: str) -> Iterator[pa.RecordBatch]:
    data = _read(settings, store, found).to_pybytes()
    if found.name.endswith(".gz"):
        data = gzip.decompress(data)
    lines = data.split(b"\n")
    for start in range(0, len(lines), _ROWS):
        part = [(line, start + at + 1) for at, line in enumerate(lines[start : start + _ROWS]) if line.strip()]
        values = pa.array([line for line, _ in part], pa.binary()).cast(pa.string(), safe=False)
        numbers = pa.array([number for _, number in part], pa.int64())
        yield pa.RecordBatch.from_arrays([values, pa.repeat(place, len(part)), numbers], schema=LINES)


def _avro_file(settings: StoreSettings, store: Any, found: Found) -> Any:
    try:
        import fastavro
    except ImportError:
        raise PipelineError("s3() needs the extra [s3]: pip install 'tailrace[s3]'") from None
    try:
        return fastavro.reader(io.BytesIO(_read(settings, store, found).to_pybytes()))
    except (ValueError, EOFError, KeyError, IndexError) as error:
        raise pa.ArrowInvalid(str(error)) from None


def _avro(settings: StoreSettings, store: Any, found: Found, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    reader = _avro_file(settings, store, found)
    names = {field["name"] for field in reader.writer_schema.get("fields", ())}
    present = pa.schema([field for field in schema if field.name in names])
    while rows := _next_rows(reader):
        yield pa.RecordBatch.from_pylist(rows, present)


def _next_rows(reader: Any) -> list[Any]:
    try:
        return list(islice(reader, _ROWS))
    except (ValueError, EOFError, KeyError, IndexError) as error:
        raise pa.ArrowInvalid(str(error) or "it ends inside a block") from None


def _fit(batch: pa.RecordBatch, schema: pa.Schema, place: str) -> pa.RecordBatch:
    """Return the columns of the source; raises `MalformedValue` if one is missing or has a type that does not fit."""
    arrays = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            raise MalformedValue(
                f"object {place} has no column {field.name}; its columns are {', '.join(batch.schema.names)}"
            )
        column = batch.column(index)
        try:
            if _is_text(column.type) != _is_text(field.type):  # Arrow would read numbers from texts
                raise pa.ArrowInvalid("a text is not another type")
            # Spark's timestamps have microseconds, so nanoseconds are cut off.
            arrays.append(column.cast(field.type, safe=not pa.types.is_temporal(field.type)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise MalformedValue(
                f"object {place}: column {field.name} is {column.type}, which does not fit {field.type}: {error}"
            ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _is_text(type_: pa.DataType) -> bool:
    kind = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
