"""The reader of znodes, many at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import chain
from typing import Any

from kazoo.protocol.serialization import GetChildren, GetData

from tailrace.base.limits import ZOOKEEPER_READS_PER_REQUEST
from tailrace.coordination.store import Node
from tailrace.coordination.zookeeper.refusal import REFUSED
from tailrace.coordination.zookeeper.request import Found, MultiRead

_OF_ZOOKEEPER = "/zookeeper"


class Reader:
    """Reads znodes below a root; paths are those of the store."""

    def __init__(self, ask: Callable[[object], asyncio.Future[Any]], root: str) -> None:
        self._ask = ask
        self._root = root

    async def walk(self) -> AsyncIterator[tuple[str, Found]]:
        """Yield every znode below the root, level by level."""
        paths = [""]
        while paths:
            children = _check_access(await self.read(GetChildren, paths))
            pairs = zip(paths, children, strict=True)
            below = [f"{path}/{name}" for path, names in pairs if isinstance(names, list) for name in names]
            found = _check_access(await self.read(GetData, below))
            paths = []
            for path, znode in zip(below, found, strict=True):
                if isinstance(znode, Found) and not is_of_zookeeper(path):
                    yield path, znode
                    if znode.stat.numChildren:
                        paths.append(path)

    async def read(self, read: Any, paths: Sequence[str]) -> list[object]:
        """Return the znode at each path, or the error."""
        znodes = [self._root + path or "/" for path in paths]
        size = ZOOKEEPER_READS_PER_REQUEST
        groups = [znodes[start : start + size] for start in range(0, len(znodes), size)]
        answers = await asyncio.gather(*(self._ask(MultiRead(read, group)) for group in groups))
        return list(chain.from_iterable(answers))


def node_at(found: Found) -> Node | None:
    return None if found.value is None else Node(found.value, found.stat.version, found.stat.czxid)


def _check_access(results: list[object]) -> list[object]:
    for result in results:
        if isinstance(result, REFUSED):
            raise result
    return results


def is_of_zookeeper(path: str) -> bool:
    return path == _OF_ZOOKEEPER or path.startswith(_OF_ZOOKEEPER + "/")
