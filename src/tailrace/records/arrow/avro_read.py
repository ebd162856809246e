"""The reading of Avro values in Python, which defines what `AvroReader` in `_avro.pxi` does."""

import struct
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

from tailrace.base.sentinel import INT32_MAX, INT64_MIN
from tailrace.records.arrow.avro_plan import Column, Fault, Node, Op
from tailrace.records.schema_id import FRAME_MAGIC, FRAME_SIZE

_DECIMAL_SIZE_MAX = 16
_VARINT_SHIFT_MAX = 63
_EXACT = Context(prec=60)


class ValueFault(Exception):
    """Reading stopped at a fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class ValueReader:
    """Reads values of one schema as Python objects."""

    def __init__(self, nodes: Sequence[Node], column: Column, empty_items_max: int) -> None:
        self._nodes = nodes
        self._column = column
        self._empty_items_left = empty_items_max
        self.has_bad_text = False
        """Whether a string was not UTF-8. The native reader copies strings as they are, so this is no fault yet."""
        self._data = memoryview(b"")
        self._at = 0

    def read(self, value: bytes, schema_id: int) -> Any:
        """Return the value without its frame. Raise `ValueFault` if its schema does not describe it."""
        if len(value) < FRAME_SIZE or value[:FRAME_SIZE] != struct.pack(">bI", FRAME_MAGIC, schema_id):
            raise ValueFault(Fault.FRAME)
        self._data, self._at = memoryview(value), FRAME_SIZE
        result = self._value(self._column)
        if self._at < len(value):
            raise ValueFault(Fault.LEFTOVER)
        return result

    def _value(self, column: Column) -> Any:
        node = self._nodes[column.index]
        branch = -1
        if node.null_branch >= 0 or node.op is Op.UNION:
            branch = self._long()
            branch_count = (len(column.children) if node.op is Op.UNION else 1) + (node.null_branch >= 0)
            if not 0 <= branch < branch_count:
                raise ValueFault(Fault.BAD_BRANCH)
            if branch == node.null_branch:
                return None
        if node.op is Op.UNION:
            member = branch - (0 <= node.null_branch < branch)
            value = self._value(column.children[member])
            return {name: value if index == member else None for index, name in enumerate(column.names)}
        if node.op is Op.RECORD:
            return {name: self._value(child) for name, child in zip(column.names, column.children, strict=True)}
        if node.op is Op.ARRAY or node.op is Op.MAP:
            return self._items(node, column)
        return self._plain(node, column)

    def _items(self, node: Node, column: Column) -> list[Any]:
        items: list[Any] = []
        while count := self._long():
            if count < 0:
                if count == INT64_MIN:
                    raise ValueFault(Fault.BAD_LENGTH)
                count = -count
                self._long()
            if node.argument == 0:
                self._empty_items_left -= count
                if self._empty_items_left < 0:
                    raise ValueFault(Fault.TOO_LARGE)
            elif count > (len(self._data) - self._at) // node.argument:
                raise ValueFault(Fault.TRUNCATED)
            for _ in range(count):
                item = tuple(self._value(child) for child in column.children)
                items.append(item if node.op is Op.MAP else item[0])
        return items

    def _plain(self, node: Node, column: Column) -> Any:
        op = node.op
        if op is Op.NULL:
            return None
        if op is Op.LONG:
            return self._long()
        if op is Op.ENUM:
            symbol = self._long()
            if not 0 <= symbol < node.argument:
                raise ValueFault(Fault.BAD_SYMBOL)
            return column.names[symbol]
        if op is Op.INT:
            number = self._long()
            if not -INT32_MAX - 1 <= number <= INT32_MAX:
                raise ValueFault(Fault.BAD_NUMBER)
            return number
        if op is Op.BOOLEAN:
            flag = self._take(1)[0]
            if flag > 1:
                raise ValueFault(Fault.BAD_BOOLEAN)
            return flag == 1
        if op is Op.FLOAT:
            return struct.unpack("<f", self._take(4))[0]
        if op is Op.DOUBLE:
            return struct.unpack("<d", self._take(8))[0]
        return self._bytes(node, column)

    def _bytes(self, node: Node, column: Column) -> Any:
        size = node.argument
        if node.op is Op.BYTES or node.op is Op.DECIMAL:
            size = self._long()
            if size < 0:
                raise ValueFault(Fault.BAD_LENGTH)
        data = bytes(self._take(size))
        if node.op is Op.DECIMAL or node.op is Op.DECIMAL_FIXED:
            number = int.from_bytes(data, signed=True)
            if number.bit_length() >= 8 * _DECIMAL_SIZE_MAX:
                raise ValueFault(Fault.BAD_DECIMAL)
            return Decimal(number).scaleb(-column.type.scale, _EXACT)
        if not column.is_text:
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.has_bad_text = True
            return ""

    def _take(self, size: int) -> memoryview:
        if size > len(self._data) - self._at:
            raise ValueFault(Fault.TRUNCATED)
        self._at += size
        return self._data[self._at - size : self._at]

    def _long(self) -> int:
        result = shift = 0
        while True:
            byte = self._take(1)[0]
            if shift == _VARINT_SHIFT_MAX and byte > 1:
                raise ValueFault(Fault.BAD_NUMBER)
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (result >> 1) ^ -(result & 1)
            shift += 7
