"""Requests of ZooKeeper 3.6 that kazoo lacks: persistent recursive watches, and many reads in one request."""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.serialization import (
    GetChildren,
    GetData,
    MultiHeader,
    int_struct,
    read_buffer,
    read_string,
    stat_struct,
    write_string,
)
from kazoo.protocol.states import ZnodeStat

_RECURSIVE = 1
_END = struct.pack("!iBi", -1, 1, -1)


class AddWatch:
    """Subscribe to every change at or below a path, as long as the connection exists."""

    type = 106

    def __init__(self, path: str) -> None:
        self._path = path

    def serialize(self) -> bytes:
        packed: bytes = write_string(self._path) + int_struct.pack(_RECURSIVE)
        return packed

    @staticmethod
    def deserialize(_answer: bytes, _offset: int) -> bool:
        return True


class Found(NamedTuple):
    """A znode; its value is None if it was created without one."""

    value: bytes | None
    stat: ZnodeStat


class MultiRead:
    """Read the values of many znodes, or the names of their children, in one request.

    The reply is a list with a `Found`, a list of names or an exception for each path. One request for each path
    would cost kazoo 0.2 ms.
    """

    type = 22

    def __init__(self, read: Any, paths: Sequence[str]) -> None:
        """`read` is kazoo's GetData or GetChildren."""
        self._read = read
        self._paths = paths

    def serialize(self) -> bytes:
        header = MultiHeader(self._read.type, False, -1).serialize()
        return b"".join([header + write_string(path) + b"\0" for path in self._paths]) + _END

    @staticmethod
    def deserialize(answer: bytes, offset: int) -> list[Found | list[str] | Exception]:
        results: list[Found | list[str] | Exception] = []
        while True:
            header, offset = MultiHeader.deserialize(answer, offset)
            if header.done:
                return results
            if header.type == GetData.type:
                value, offset = read_buffer(answer, offset)
                results.append(Found(value, ZnodeStat._make(stat_struct.unpack_from(answer, offset))))
                offset += stat_struct.size
            elif header.type == GetChildren.type:
                names, offset = _read_names(answer, offset)
                results.append(names)
            else:
                (code,) = int_struct.unpack_from(answer, offset)
                offset += int_struct.size
                results.append(EXCEPTIONS[code]())


def _read_names(answer: bytes, offset: int) -> tuple[list[str], int]:
    (count,) = int_struct.unpack_from(answer, offset)
    offset += int_struct.size
    names = []
    for _ in range(count):
        name, offset = read_string(answer, offset)
        names.append(name)
    return names, offset
