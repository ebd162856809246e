"""The content of objects: Parquet, Avro container files, and JSON lines, each to a stream of bytes.

This runs in executors, and works by column. Nothing here needs Spark.
"""

import json
import os
import sys
import zlib
from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.records.arrow.avro_encode import AvroEncoder
from tailrace.records.varint import write_varint
from tailrace.schema.avro.schema import parse
from tailrace.spark.connector.s3.object_format import TEXT, ObjectFormat

_LARGE = pa.large_string()  # a column of texts may have more than 2 GiB
_FRAME_SIZE = 5  # the encoder writes values as in topics, after the id of their schema
_NO_END = 2**31 - 1
_MAGIC = b"Obj\x01"
_SYNC_SIZE = 16


class CountingFile:
    """A writer that counts bytes, as Arrow wants it."""

    closed = False

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self.size = 0

    def write(self, data: Any) -> int:
        """Write some bytes."""
        view = memoryview(data)
        if view.nbytes:
            self._writer.write(bytes(view))
        self.size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return the number of bytes so far."""
        return self.size

    def flush(self) -> None:
        """Do nothing: the object is there when it is closed, or not at all."""

    def close(self) -> None:
        """Do nothing: Arrow closes files that it gives up, too."""


class Body(ABC):
    """The content of one object."""

    def __init__(self, file: CountingFile) -> None:
        self.file = file

    @abstractmethod
    def write(self, rows: pa.Table) -> None:
        """Write rows."""

    @abstractmethod
    def finish(self) -> None:
        """Write what follows the rows."""


class _ParquetBody(Body):
    def __init__(self, file: CountingFile, schema: pa.Schema, compression: str) -> None:
        super().__init__(file)
        self._writer = pq.ParquetWriter(pa.PythonFile(file, "w"), schema, compression=compression)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def finish(self) -> None:
        self._writer.close()


class _JsonBody(Body):
    """Lines of JSON that Spark has written, in the column `TEXT`."""

    def __init__(self, file: CountingFile, compression: str) -> None:
        super().__init__(file)
        self._deflate = zlib.compressobj(wbits=31) if compression == "gzip" else None

    def write(self, rows: pa.Table) -> None:
        for chunk in rows.column(TEXT).chunks:
            lines = pc.binary_join_element_wise(chunk.cast(_LARGE), pa.scalar("", _LARGE), pa.scalar("\n", _LARGE))
            self._put(_values(lines.cast(pa.large_binary())))

    def finish(self) -> None:
        if self._deflate is not None:
            self.file.write(self._deflate.flush())

    def _put(self, data: Any) -> None:
        self.file.write(data if self._deflate is None else self._deflate.compress(data))


class _AvroBody(Body):
    """An Avro container file: a header with the schema, and blocks of values."""

    def __init__(self, file: CountingFile, avro_schema: str, compression: str) -> None:
        super().__init__(file)
        self._encoder = AvroEncoder(parse(avro_schema).root, 0)
        self._is_deflated = compression == "deflate"
        self._sync = os.urandom(_SYNC_SIZE)
        codec = b"deflate" if self._is_deflated else b"null"
        header = {b"avro.schema": avro_schema.encode(), b"avro.codec": codec}
        entries = b"".join(_sized(name) + _sized(value) for name, value in header.items())
        file.write(_MAGIC + _long(len(header)) + entries + _long(0) + self._sync)

    def write(self, rows: pa.Table) -> None:
        for batch in rows.to_batches():
            data = _values(pc.binary_slice(self._encoder.encode(batch), _FRAME_SIZE, _NO_END))
            if self._is_deflated:
                data = zlib.compress(data, wbits=-15)
            self.file.write(_long(batch.num_rows) + _long(len(data)))
            self.file.write(data)
            self.file.write(self._sync)

    def finish(self) -> None:
        pass


def open_body(
    file: CountingFile, format: ObjectFormat, compression: str, schema: pa.Schema, avro_schema: str | None
) -> Body:
    """Begin an object."""
    if format is ObjectFormat.PARQUET:
        return _ParquetBody(file, schema, compression)
    if format is ObjectFormat.JSON:
        return _JsonBody(file, compression)
    return _AvroBody(file, avro_schema or json.dumps("null"), compression)


def _long(value: int) -> bytes:
    output = bytearray()
    write_varint(output, value)
    return bytes(output)


def _sized(data: bytes) -> bytes:
    return _long(len(data)) + data


def _values(array: Any) -> Any:
    """Return the bytes of all values of a binary array, one after the other."""
    if not len(array):
        return b""
    width = 8 if pa.types.is_large_binary(array.type) else 4
    _, offsets, data = array.buffers()
    first, last = (
        int.from_bytes(offsets[at * width : (at + 1) * width], sys.byteorder)
        for at in (array.offset, array.offset + len(array))
    )
    return b"" if data is None else memoryview(data)[first:last]
