"""The writing of Avro values in Python, which defines what `write_avro` in `_avro_write.pxi` does."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context
from typing import Any

from tailrace.records.arrow.avro_plan import Fault, Node, Op
from tailrace.records.arrow.avro_read import ValueFault
from tailrace.records.arrow.avro_source import Source

_EXACT = Context(prec=60)


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of a node's column as Python objects."""

    node: Node
    scale: int
    is_valid: list[bool]
    values: list[Any]  # of a leaf; the offsets of a list or map
    children: "list[_Entries]"


class ValueWriter:
    """Writes the rows of a source as framed values."""

    def __init__(self, nodes: Sequence[Node], source: Source, frame: bytes) -> None:
        self._entries = _read_entries(nodes, source)
        self._frame = frame
        self._out = bytearray()

    def write(self, row: int) -> bytes | None:
        """Return the value of a row. Raise `ValueFault` if the schema does not allow it."""
        entries = self._entries
        if entries.node.null_branch < 0 and entries.node.op is not Op.NULL and not entries.is_valid[row]:
            return None
        self._out = bytearray(self._frame)
        self._value(entries, row)
        return bytes(self._out)

    def _value(self, entries: _Entries, row: int) -> None:
        node = entries.node
        if node.op is Op.NULL:
            return
        if not entries.is_valid[row]:
            if node.null_branch < 0:
                raise ValueFault(Fault.NOT_NULL)
            self._long(node.null_branch)
            return
        if node.op is Op.UNION:
            self._member(entries, row)
            return
        if node.null_branch >= 0:
            self._long(1 - node.null_branch)
        if node.op is Op.RECORD:
            for child in entries.children:
                self._value(child, row)
        elif node.op is Op.ARRAY or node.op is Op.MAP:
            self._items(entries, entries.values[row], entries.values[row + 1])
        else:
            self._plain(entries, entries.values[row])

    def _items(self, entries: _Entries, start: int, stop: int) -> None:
        if stop > start:
            self._long(stop - start)
        for item in range(start, stop):
            for child in entries.children:
                self._value(child, item)
        self._out.append(0)

    def _member(self, entries: _Entries, row: int) -> None:
        members = [index for index, child in enumerate(entries.children) if child.is_valid[row]]
        if len(members) != 1:
            raise ValueFault(Fault.BAD_BRANCH)
        self._long(members[0] + (0 <= entries.node.null_branch <= members[0]))
        self._value(entries.children[members[0]], row)

    def _plain(self, entries: _Entries, value: Any) -> None:
        op = entries.node.op
        if op in (Op.INT, Op.LONG, Op.ENUM):
            self._long(value)
        elif op is Op.BOOLEAN:
            self._out.append(value)
        elif op is Op.FLOAT:
            self._out += struct.pack("<f", value)
        elif op is Op.DOUBLE:
            self._out += struct.pack("<d", value)
        elif op is Op.FIXED:
            self._out += value
        elif op is Op.BYTES:
            self._long(len(value))
            self._out += value
        else:
            self._decimal(entries.node, int(value.scaleb(entries.scale, _EXACT)))

    def _decimal(self, node: Node, number: int) -> None:
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        if node.op is Op.DECIMAL:
            self._long(size)
        elif size > node.argument:
            raise ValueFault(Fault.BAD_DECIMAL)
        else:
            size = node.argument
        self._out += number.to_bytes(size, signed=True)

    def _long(self, value: int) -> None:
        rest = (value << 1) ^ (value >> 63)
        while rest >= 0x80:
            self._out.append(rest & 0x7F | 0x80)
            rest >>= 7
        self._out.append(rest)


def _read_entries(nodes: Sequence[Node], source: Source) -> _Entries:
    node = nodes[source.column.index]
    if node.op is Op.ARRAY or node.op is Op.MAP:
        values = source.array.offsets.to_pylist()
    else:
        values = [] if source.children else source.array.to_pylist()
    scale = source.column.type.scale if node.op in (Op.DECIMAL, Op.DECIMAL_FIXED) else 0
    children = [_read_entries(nodes, child) for child in source.children]
    return _Entries(node, scale, source.array.is_valid().to_pylist(), values, children)
