"""The compiler of decoders, for one message in one version.

The mirror of the encoder: runs of fixed width become one `Struct.unpack_from` directly into the
fields, and structs and arrays are expanded in place. Every length and count is checked against the
bytes left before anything is sliced or allocated, so that a false length costs the peer its
connection and the broker nothing. Counts are also added up and checked against a limit of the
caller, because a hundred megabytes may hold a valid array of fifty million elements. A read past
the end by a byte or two raises IndexError or struct.error, which `codec.decode` translates.
"""

import uuid
from collections.abc import Callable
from functools import lru_cache
from struct import Struct, unpack_from
from typing import Any

from tailrace.base.limits import UUIDS_REMEMBERED_MAX
from tailrace.protocol.errors import RemoteProtocolError
from tailrace.protocol.message import Field, Message, Schema
from tailrace.protocol.primitive import (
    BYTES,
    FRESH,
    STRING,
    STRING_SIZE_MAX,
    UUID,
    Array,
    Buffer,
    Fixed,
    WireType,
    decode_varint,
    skip_tagged_fields,
)
from tailrace.protocol.source import Source

Decoder = Callable[[Buffer, int, int], tuple[Any, int]]


def _string_varint(data: Buffer, position: int) -> tuple[int, int]:
    size, position = decode_varint(data, position)
    if size > STRING_SIZE_MAX + 1:
        raise RemoteProtocolError(f"a string has {size - 1} bytes, more than the protocol allows")
    return size, position


@lru_cache(maxsize=UUIDS_REMEMBERED_MAX)
def _uuid(data: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=data)


def _fail(name: str, problem: str) -> None:
    raise RemoteProtocolError(f"{name} {problem}")


def size_min(kind: WireType | type[Message], version: int, flexible: bool) -> int:
    """Return the smallest size of a value of this type. An array of n elements needs n times as much."""
    if isinstance(kind, Fixed):
        return kind.size
    if isinstance(kind, type):
        fields = kind.SCHEMA.untagged_fields(version)
        return sum(field_size_min(field, version, flexible) for field in fields) + flexible
    if flexible:
        return 1
    return 2 if kind is STRING else 4


def field_size_min(field: Field, version: int, flexible: bool) -> int:
    """Return the smallest size of a field. A nullable struct may have a single byte."""
    if isinstance(field.type, type) and version in field.nullable:
        return 1
    return size_min(field.type, version, flexible)


class DecoderWriter:
    """Generates the decoder from a schema in one version."""

    def __init__(self, schema: Schema, version: int) -> None:
        self._schema = schema
        self._version = version
        self._flexible = version in schema.flexible
        self._source = Source()
        self._run: list[tuple[str, str]] = []
        self._source.scope.update(
            new=object.__new__,
            unpack_from=unpack_from,
            varint=decode_varint,
            string_varint=_string_varint,
            skip_tagged_fields=skip_tagged_fields,
            fail=_fail,
            uuid=_uuid,
        )

    def compile(self) -> Decoder:
        self._source.line("end = len(data)")
        self._struct(self._schema, "message")
        self._flush()
        self._source.line("return message, p")
        title = f"decode {self._schema.name} v{self._version}"
        return self._source.compile("def decode(data, p, left):", "decode", title)

    def _flush(self) -> None:
        """End the run, because a field without a fixed width or another block follows."""
        run, self._run = self._run, []
        if not run:
            return
        layout = Struct(">" + "".join(letter for letter, _ in run))
        unpack = self._source.constant("unpack", layout.unpack_from)
        targets = ", ".join(target for _, target in run)
        self._source.line(f"{targets}, = {unpack}(data, p)")
        self._source.line(f"p += {layout.size}")
        for letter, target in run:
            if letter == UUID.format:
                self._source.line(f"{target} = uuid({target})")

    def _struct(self, schema: Schema, target: str) -> None:
        self._source.line(f"{target} = new({self._source.constant('struct', schema.type)})")
        for field in schema.absent_fields(self._version):
            self._default(field, f"{target}.{field.name}")
        for field in schema.untagged_fields(self._version):
            self._field(schema, field, f"{target}.{field.name}")
        if self._flexible:
            self._flush()
            self._tagged_section(schema, target)

    def _default(self, field: Field, target: str) -> None:
        if field.default is not FRESH:
            default = field.default
            plain = default is None or type(default) in (bool, int, str, bytes)
            self._source.line(f"{target} = {repr(default) if plain else self._source.constant('default', default)}")
        elif isinstance(field.type, Array):
            self._source.line(f"{target} = []")
        else:
            self._source.line(f"{target} = {self._source.constant('struct', field.type)}()")

    def _field(self, schema: Schema, field: Field, target: str) -> None:
        kind = field.type
        name = f"{schema.name}.{field.name}"
        nullable = self._version in field.nullable
        if isinstance(kind, Fixed):
            self._run.append((kind.format, target))
        elif isinstance(kind, Array):
            self._array(name, kind, target, nullable)
        elif isinstance(kind, type):
            self._nested(kind, target, nullable, tagged=self._version in field.tagged)
        else:
            self._sized(name, kind, target, nullable)

    def _nested(self, kind: type[Message], target: str, nullable: bool, tagged: bool) -> None:
        local = self._source.fresh_name("struct_")
        if not nullable:
            self._struct(kind.SCHEMA, local)
            self._flush()
            self._source.line(f"{target} = {local}")
            return
        flag = self._source.fresh_name("flag")
        self._run.append(("b", flag))
        self._flush()
        with self._source.block(f"if {flag} {'<=' if tagged else '<'} 0:"):
            self._source.line(f"{target} = None")
        with self._source.block("else:"):
            self._struct(kind.SCHEMA, local)
            self._flush()
            self._source.line(f"{target} = {local}")

    def _length(self, letter: str) -> str:
        """Generate code that reads a length or count; null is 0 in flexible versions and -1 in older ones."""
        size = self._source.fresh_name("n")
        if not self._flexible:
            self._run.append((letter, size))
            self._flush()
            return size
        self._flush()
        varint = "string_varint" if letter == "h" else "varint"
        self._source.line(f"{size} = data[p]")
        with self._source.block(f"if {size} < 128:"):
            self._source.line("p += 1")
        with self._source.block("else:"):
            self._source.line(f"{size}, p = {varint}(data, p)")
        self._source.line(f"{size} -= 1")
        return size

    def _null(self, name: str, size: str, target: str, nullable: bool) -> str:
        """Generate code for a negative length, and return the `else` for the code that follows."""
        with self._source.block(f"if {size} < 0:"):
            if nullable and self._flexible:
                self._source.line(f"{target} = None")
            elif nullable:
                with self._source.block(f"if {size} != -1:"):
                    self._source.line(f"fail({name!r}, 'has a negative length')")
                self._source.line(f"{target} = None")
            else:
                self._source.line(f"fail({name!r}, 'is null or has a negative length')")
        return "else:"

    def _sized(self, name: str, kind: WireType, target: str, nullable: bool) -> None:
        size = self._length("h" if kind is STRING else "i")
        with self._source.block(self._null(name, size, target, nullable)):
            stop = self._source.fresh_name("stop")
            self._source.line(f"{stop} = p + {size}")
            with self._source.block(f"if {stop} > end:"):
                self._source.line(f"fail({name!r}, 'is longer than the remaining data')")
            if kind is STRING:
                self._source.line(f"{target} = str(data[p:{stop}], 'utf-8')")
            elif kind is BYTES:
                self._source.line(f"{target} = bytes(data[p:{stop}])")
            else:
                self._source.line(f"{target} = memoryview(data)[p:{stop}]")
            self._source.line(f"p = {stop}")

    def _array(self, name: str, kind: Array, target: str, nullable: bool) -> None:
        size = self._length("i")
        element = kind.element
        with self._source.block(self._null(name, size, target, nullable)):
            element_size = size_min(element, self._version, self._flexible)
            times = f" * {element_size}" if element_size > 1 else ""
            with self._source.block(f"if {size}{times} > end - p:"):
                self._source.line(f"fail({name!r}, 'has more elements than the remaining data can hold')")
            self._count_towards_bound(name, size)
            if isinstance(element, Fixed) and element is not UUID:
                self._source.line(f"{target} = list(unpack_from('>%d{element.format}' % {size}, data, p))")
                self._source.line(f"p += {size}{times}")
            else:
                self._elements(name, element, size, target)

    def _count_towards_bound(self, name: str, size: str) -> None:
        self._source.line(f"left -= {size}")
        with self._source.block("if left < 0:"):
            self._source.line(f"fail({name!r}, 'has more elements than one message may have')")

    def _elements(self, name: str, element: WireType | type[Message], size: str, target: str) -> None:
        items = self._source.fresh_name("items")
        item = self._source.fresh_name("item")
        self._source.line(f"{items} = {target} = []")
        with self._source.block(f"for _ in range({size}):"):
            if isinstance(element, type):
                self._struct(element.SCHEMA, item)
            elif isinstance(element, Fixed):
                self._run.append((element.format, item))
            else:
                self._sized(f"an element of {name}", element, item, nullable=False)
            self._flush()
            self._source.line(f"{items}.append({item})")

    def _tagged_section(self, schema: Schema, target: str) -> None:
        """Generate code that reads the known tagged fields in any order and skips the others (KIP-482)."""
        fields = schema.tagged_fields(self._version)
        count = self._source.fresh_name("count")
        for field in fields:
            self._default(field, f"{target}.{field.name}")
        self._source.line(f"{count} = data[p]")
        with self._source.block(f"if {count} == 0:"):
            self._source.line("p += 1")
        with self._source.block("else:"):
            if not fields:
                self._source.line(f"{count}, _ = varint(data, p)")
                self._count_towards_bound(schema.name, count)
                self._source.line("p = skip_tagged_fields(data, p)")
                return
            self._source.line(f"{count}, p = varint(data, p)")
            self._count_towards_bound(schema.name, count)
            with self._source.block(f"for _ in range({count}):"):
                self._tagged_field(schema, fields, target)

    def _tagged_field(self, schema: Schema, fields: list[Field], target: str) -> None:
        tag, stop = self._source.fresh_name("tag"), self._source.fresh_name("stop")
        self._source.line(f"{tag}, p = varint(data, p)")
        self._source.line(f"{stop}, p = varint(data, p)")
        self._source.line(f"{stop} += p")
        with self._source.block(f"if {stop} > end:"):
            self._source.line(f"fail({schema.name!r}, 'has a tagged field longer than the remaining data')")
        keyword = "if"
        for field in fields:
            with self._source.block(f"{keyword} {tag} == {field.tag}:"):
                self._field(schema, field, f"{target}.{field.name}")
                self._flush()
            keyword = "elif"
        with self._source.block("else:"):
            self._source.line(f"p = {stop}")
        with self._source.block(f"if p != {stop}:"):
            self._source.line(f"fail({schema.name!r}, 'has a tagged field whose size differs from its stated size')")
