"""The compiler of encoders, for one message in one version.

An encoder appends pieces to a list. Adjacent values of fixed width, and the lengths and counts in
older versions, are collected in a run that becomes one call of `Struct.pack`. Structs and arrays are
expanded in place, so that an encoder calls no other function of ours except the varint of a long
length.
"""

from collections.abc import Callable
from struct import Struct, pack
from typing import Any

from tailrace.protocol.errors import EncodeError
from tailrace.protocol.message import Field, Message, Schema
from tailrace.protocol.primitive import FRESH, RECORDS, STRING, STRING_SIZE_MAX, UUID, Array, Fixed, encode_varint
from tailrace.protocol.source import Source

Encoder = Callable[[Message, list[Any]], None]

# A length below this has one byte on the wire.
SHORT_VARINTS = tuple(bytes([value]) for value in range(0x80))


def _string_varint(size: int) -> bytes:
    if size > STRING_SIZE_MAX + 1:
        raise EncodeError(f"a string has {size - 1} bytes, more than the protocol allows")
    return encode_varint(size)


def _fail_absent(name: str, version: int) -> None:
    raise EncodeError(f"{name} has a value, but version {version} has no such field")


def _fail_null(name: str, version: int) -> None:
    raise EncodeError(f"{name} is None, which version {version} does not allow")


class EncoderWriter:
    """Generates the encoder from a schema in one version."""

    def __init__(self, schema: Schema, version: int) -> None:
        self._schema = schema
        self._version = version
        self._flexible = version in schema.flexible
        self._source = Source()
        self._run: list[tuple[str, str]] = []
        self._out = "out"
        self._source.scope.update(
            pack=pack,
            short=SHORT_VARINTS,
            varint=encode_varint,
            string_varint=_string_varint,
            fail_absent=_fail_absent,
            fail_null=_fail_null,
        )

    def compile(self) -> Encoder:
        self._source.line("append = out.append")
        self._struct(self._schema, "message")
        self._flush()
        title = f"encode {self._schema.name} v{self._version}"
        return self._source.compile("def encode(message, out):", "encode", title)

    def _append(self, expression: str) -> None:
        call = "append" if self._out == "out" else f"{self._out}.append"
        self._source.line(f"{call}({expression})")

    def _flush(self) -> None:
        """End the run, because a field without a fixed width or another block follows."""
        run, self._run = self._run, []
        letters = "".join(letter for letter, _ in run)
        expressions = [expression for _, expression in run]
        if not run:
            return
        if all(expression.lstrip("-").isdigit() for expression in expressions):
            self._append(repr(Struct(f">{letters}").pack(*map(int, expressions))))
        else:
            packer = self._source.constant("pack", Struct(f">{letters}").pack)
            self._append(f"{packer}({', '.join(expressions)})")

    def _struct(self, schema: Schema, value: str) -> None:
        for field in schema.absent_fields(self._version):
            if not field.ignorable:
                self._check_absent(schema, field, f"{value}.{field.name}")
        for field in schema.untagged_fields(self._version):
            self._field(schema, field, f"{value}.{field.name}")
        if self._flexible:
            self._tagged_section(schema, value)

    def _check_absent(self, schema: Schema, field: Field, value: str) -> None:
        with self._source.block(f"if {self._differs(field, value)}:"):
            self._source.line(f"fail_absent({f'{schema.name}.{field.name}'!r}, {self._version})")

    def _differs(self, field: Field, value: str) -> str:
        """Return an expression that is true if the value is not the field's default."""
        if field.default is None:
            return f"{value} is not None"
        if field.default is not FRESH:
            default = field.default
            literal = repr(default) if type(default) in (bool, int, str) else self._source.constant("default", default)
            return f"{value} != {literal}"
        if isinstance(field.type, Array):
            return f"{value} or {value} is None"
        return f"{value} != {self._source.constant('struct', field.type)}()"

    def _field(self, schema: Schema, field: Field, value: str) -> None:
        kind = field.type
        if isinstance(kind, Fixed):
            self._run.append((kind.format, f"{value}.bytes" if kind is UUID else value))
            return
        local = self._source.fresh_name("v")
        self._source.line(f"{local} = {value}")
        nullable = self._version in field.nullable
        if not nullable:
            with self._source.block(f"if {local} is None:"):
                self._source.line(f"fail_null({f'{schema.name}.{field.name}'!r}, {self._version})")
        if isinstance(kind, Array):
            self._array(schema, kind, local, nullable)
        elif isinstance(kind, type):
            self._nested(kind, local, nullable, null=b"\0" if self._version in field.tagged else b"\xff")
        else:
            self._sized(kind, local, nullable)

    def _nested(self, kind: type[Message], local: str, nullable: bool, null: bytes) -> None:
        if not nullable:
            self._struct(kind.SCHEMA, local)
            return
        self._flush()
        with self._source.block(f"if {local} is None:"):
            self._append(repr(null))
        with self._source.block("else:"):
            self._run.append(("b", "1"))
            self._struct(kind.SCHEMA, local)
            self._flush()

    def _sized(self, kind: object, local: str, nullable: bool) -> None:
        """Generate code for a string, bytes or records: the length, then the bytes as a separate piece."""
        size = self._source.fresh_name("n")
        if kind is STRING:
            measure = [f"{local} = {local}.encode()", f"{size} = len({local})"]
        elif kind is RECORDS:
            measure = [f"{size} = sum(map(len, {local})) if type({local}) is list else len({local})"]
        else:
            measure = [f"{size} = len({local})"]
        self._measured(local, size, measure, nullable, empty="b''")
        self._length("h" if kind is STRING else "i", size, "string_varint" if kind is STRING else "varint")
        if kind is RECORDS:
            with self._source.block(f"if type({local}) is list:"):
                self._source.line(f"{self._out}.extend({local})")
            with self._source.block("else:"):
                self._append(local)
        else:
            self._append(local)

    def _measured(self, local: str, size: str, measure: list[str], nullable: bool, empty: str) -> None:
        """Generate code that measures a value. Null has the size -1 and no bytes."""
        if not nullable:
            for line in measure:
                self._source.line(line)
            return
        with self._source.block(f"if {local} is None:"):
            self._source.line(f"{local} = {empty}")
            self._source.line(f"{size} = -1")
        with self._source.block("else:"):
            for line in measure:
                self._source.line(line)

    def _length(self, letter: str, size: str, varint: str) -> None:
        if not self._flexible:
            self._run.append((letter, size))
            self._flush()
            return
        if not self._run:
            self._append(f"short[{size} + 1] if {size} < 127 else {varint}({size} + 1)")
            return
        run = list(self._run)
        with self._source.block(f"if {size} < 127:"):
            self._run.append(("B", f"{size} + 1"))
            self._flush()
        with self._source.block("else:"):
            self._run = run
            self._flush()
            self._append(f"{varint}({size} + 1)")

    def _array(self, schema: Schema, kind: Array, local: str, nullable: bool) -> None:
        size = self._source.fresh_name("n")
        self._measured(local, size, [f"{size} = len({local})"], nullable, empty="()")
        self._length("i", size, "varint")
        element = kind.element
        if isinstance(element, Fixed) and element is not UUID:
            with self._source.block(f"if {size} > 0:"):
                self._append(f"pack('>%d{element.format}' % {size}, *{local})")
            return
        item = self._source.fresh_name("item")
        with self._source.block(f"for {item} in {local}:"):
            if isinstance(element, type):
                self._struct(element.SCHEMA, item)
            elif element is UUID:
                self._append(f"{item}.bytes")
            else:
                with self._source.block(f"if {item} is None:"):
                    self._source.line(f"fail_null({f'an element in {schema.name}'!r}, {self._version})")
                self._sized(element, item, nullable=False)
            self._flush()

    def _tagged_section(self, schema: Schema, value: str) -> None:
        """Generate the tagged section that ends every struct of a flexible version (KIP-482)."""
        fields = schema.tagged_fields(self._version)
        if not fields:
            self._run.append(("B", "0"))
            return
        self._flush()
        conditions = [self._differs(field, f"{value}.{field.name}") for field in fields]
        with self._source.block(f"if {' or '.join(conditions)}:"):
            tags = self._source.fresh_name("tags")
            self._source.line(f"{tags} = []")
            for field, condition in zip(fields, conditions, strict=True):
                with self._source.block(f"if {condition}:"):
                    self._tagged_field(schema, field, f"{value}.{field.name}", tags)
            self._append(f"varint(len({tags}) // 3)")
            self._source.line(f"{self._out} += {tags}")
        with self._source.block("else:"):
            self._append(repr(b"\0"))

    def _tagged_field(self, schema: Schema, field: Field, value: str, tags: str) -> None:
        """Generate tag, size and value. The value is encoded separately first, to know its size."""
        outer, self._out = self._out, self._source.fresh_name("body")
        self._source.line(f"{self._out} = []")
        self._field(schema, field, value)
        self._flush()
        self._source.line(f"{self._out} = b''.join({self._out})")
        self._source.line(f"{tags} += ({encode_varint(field.tag)!r}, varint(len({self._out})), {self._out})")
        self._out = outer
