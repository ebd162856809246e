"""The metadata store of a single broker: SQLite in its data folder.

SQLite's write-ahead log with full synchronisation gives what the interface promises: a
commit is on the disk before it returns, and a kill at any byte leaves the last commit
whole. Statements run on one worker thread, so a slow fsync never holds the event loop.
"""

import asyncio
import errno
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from runnel.coordination.store import (
    ANY_VERSION,
    BadVersionError,
    Change,
    Check,
    Create,
    Delete,
    Node,
    NodeExistsError,
    NoNodeError,
    Operation,
    Put,
    Watcher,
)
from runnel.storage.error import StorageError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS node (
    path TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    version INTEGER NOT NULL
) WITHOUT ROWID
"""

T = TypeVar("T")


class EmbeddedStore:
    """A `MetadataStore` in one file, for one process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="runnel-metadata")
        try:
            self._database = self._thread.submit(_connect, path).result()
        except sqlite3.Error as error:
            self._thread.shutdown()
            raise _storage_error(path, error) from error
        self._watchers: list[Watcher] = []
        self._commits = asyncio.Lock()

    async def get(self, path: str) -> Node | None:
        return await self._run(_get, path)

    async def tree(self, path: str) -> dict[str, Node]:
        return await self._run(_tree, path)

    async def commit(self, operations: Sequence[Operation]) -> None:
        # A caller that is cancelled must not keep a durable change from the watchers.
        await asyncio.shield(self._commit_and_notify(tuple(operations)))

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    async def close(self) -> None:
        async with self._commits:
            await self._run(sqlite3.Connection.close)
        self._thread.shutdown()

    async def _commit_and_notify(self, operations: tuple[Operation, ...]) -> None:
        # The lock keeps notifications in commit order.
        async with self._commits:
            changes = await self._run(_commit, operations)
            for watcher in self._watchers:
                watcher(changes)

    async def _run(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, function, self._database, *arguments)
        except sqlite3.Error as error:
            raise _storage_error(self._path, error) from error


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute(_SCHEMA)
    except sqlite3.Error:
        database.close()
        raise
    return database


def _storage_error(path: Path, error: sqlite3.Error) -> StorageError:
    return StorageError(str(path), OSError(errno.EIO, str(error)))


def _get(database: sqlite3.Connection, path: str) -> Node | None:
    row = database.execute("SELECT value, version FROM node WHERE path = ?", (path,)).fetchone()
    return Node(*row) if row else None


def _tree(database: sqlite3.Connection, path: str) -> dict[str, Node]:
    # "0" is the character after "/": the range holds exactly what begins with "path/".
    rows = database.execute(
        "SELECT path, value, version FROM node WHERE path = ? OR (path > ? AND path < ?) ORDER BY path",
        (path, path.rstrip("/") + "/", path.rstrip("/") + "0"),
    )
    return {name: Node(value, version) for name, value, version in rows}


def _commit(database: sqlite3.Connection, operations: tuple[Operation, ...]) -> list[Change]:
    database.execute("BEGIN IMMEDIATE")
    try:
        changes = [change for operation in operations if (change := _apply(database, operation))]
        database.execute("COMMIT")
    except BaseException:
        # SQLite has rolled back by itself where the disk failed, but not always.
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
    return changes


def _apply(database: sqlite3.Connection, operation: Operation) -> Change | None:
    node = _get(database, operation.path)
    match operation:
        case Create(path, value):
            if node is not None:
                raise NodeExistsError(path)
            database.execute("INSERT INTO node VALUES (?, ?, 0)", (path, value))
            return Change(path, Node(value, 0))
        case Put(path, value, version):
            new_version = _expect(path, node, version).version + 1
            database.execute("UPDATE node SET value = ?, version = ? WHERE path = ?", (value, new_version, path))
            return Change(path, Node(value, new_version))
        case Delete(path, version):
            _expect(path, node, version)
            database.execute("DELETE FROM node WHERE path = ?", (path,))
            return Change(path, None)
        case Check(path, version):
            _expect(path, node, version)
            return None


def _expect(path: str, node: Node | None, version: int) -> Node:
    if node is None:
        raise NoNodeError(path)
    if version not in (ANY_VERSION, node.version):
        raise BadVersionError(f"{path} is at version {node.version}, not {version}")
    return node
