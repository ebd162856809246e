"""The metadata store of a single broker: SQLite in its data folder.

SQLite's write-ahead log with full synchronisation provides what the interface requires: a commit is
on the disk before it returns, and a kill at any point leaves the last commit intact. Statements run
on one worker thread, so a slow fsync does not block the event loop. The nodes are also in memory,
where commits are decided. Ephemeral nodes are only in memory, because the process is the session.
"""

import asyncio
import errno
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TypeVar

from tailrace.coordination.reserve import Reserve
from tailrace.coordination.shield import finish_anyway
from tailrace.coordination.store import Node, Operation, SessionListener, SessionState, Watcher
from tailrace.coordination.tree import Step, Tree
from tailrace.storage.error import StorageError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS node (
    path TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    version INTEGER NOT NULL,
    created INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID
"""
_COUNTER_SCHEMA = "CREATE TABLE IF NOT EXISTS counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID"

_PRIVATE = 0o600
_SIDE_FILES = ("-wal", "-shm")

T = TypeVar("T")


class EmbeddedStore:
    """A `MetadataStore` in one file, for one process."""

    session_state = SessionState.CONNECTED

    def __init__(self, path: Path, reserve: Reserve | None = None) -> None:
        self._path = path
        self._reserve = reserve
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tailrace-metadata")
        try:
            self._database, self._tree = self._thread.submit(_connect, path).result()
        except sqlite3.Error as error:
            self._thread.shutdown()
            raise _storage_error(path, error) from error
        if reserve is not None:
            self._thread.submit(reserve.take)
        self._watchers: list[Watcher] = []
        self._commits = asyncio.Lock()

    async def get(self, path: str) -> Node | None:
        return self._tree.nodes.get(path)

    async def tree(self, path: str) -> dict[str, Node]:
        return self._tree.at_or_below(path)

    async def commit(self, operations: Sequence[Operation]) -> None:
        # A cancelled caller must not keep a durable change from the watchers.
        await finish_anyway(self._commit_and_notify(tuple(operations)))

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def lease_until_ms(self) -> float:
        return inf

    def on_session(self, listener: SessionListener) -> None:
        """Do nothing: the session lasts as long as the process, so its state never changes."""

    async def wait_connected(self) -> None:
        """Return at once: the store is always connected."""

    async def close(self) -> None:
        async with self._commits:
            await self._run(sqlite3.Connection.close)
        self._thread.shutdown()

    async def _commit_and_notify(self, operations: tuple[Operation, ...]) -> None:
        # The lock keeps the decision valid until it is replayed, and notifications in commit order.
        async with self._commits:
            steps = self._tree.decide(operations)
            if steps:
                created = max((step.change.node.created for step in steps if step.change.node), default=0)
                await self._run(self._write, steps, created if created > self._tree.transaction else None)
                self._tree.replay(steps)
                changes = [step.change for step in steps]
                for watcher in self._watchers:
                    watcher(changes)

    def _write(self, database: sqlite3.Connection, steps: Sequence[Step], created: int | None) -> None:
        try:
            _write(database, steps, created)
        except sqlite3.Error as error:
            reserve = self._reserve
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL or reserve is None or not reserve.give_up():
                raise
            _write(database, steps, created)
            reserve.take()

    async def _run(self, function: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, function, self._database, *arguments)
        except sqlite3.Error as error:
            raise _storage_error(self._path, error) from error


def _connect(path: Path) -> tuple[sqlite3.Connection, Tree]:
    _keep_private(path)
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute(_SCHEMA)
        database.execute(_COUNTER_SCHEMA)
        if "created" not in {row[1] for row in database.execute("PRAGMA table_info(node)")}:
            # The file of an older version without this counter.
            database.execute("ALTER TABLE node ADD COLUMN created INTEGER NOT NULL DEFAULT 0")
        return database, _read(database)
    except sqlite3.Error:
        database.close()
        raise


def _keep_private(path: Path) -> None:
    """Let only the broker's user read the file, which has the keys of users. SQLite gives its other files this mode."""
    with suppress(OSError):  # SQLite's error says what is wrong; an older file may belong to another user
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, _PRIVATE))
        for file in (path, *(path.with_name(path.name + suffix) for suffix in _SIDE_FILES)):
            if file.exists():
                file.chmod(_PRIVATE)


def _read(database: sqlite3.Connection) -> Tree:
    nodes = {path: Node(*rest) for path, *rest in database.execute("SELECT path, value, version, created FROM node")}
    counter = database.execute("SELECT value FROM counter WHERE name = 'created'").fetchone()
    return Tree(nodes, counter[0] if counter else 0)


def _storage_error(path: Path, error: sqlite3.Error) -> StorageError:
    # SQLite says only that it cannot open the file.
    if error.sqlite_errorcode == sqlite3.SQLITE_CANTOPEN and (missing := _missing_access(path.parent)):
        return StorageError(str(path.parent), OSError(errno.EACCES, f"the broker's user may not {missing} this folder"))
    return StorageError(str(path), OSError(errno.EIO, str(error)))


def _missing_access(folder: Path) -> str:
    """Return what this process may not do with a folder, in words; empty if it may do everything."""
    modes = {"read": os.R_OK, "write to": os.W_OK, "enter": os.X_OK}
    return " or ".join(verb for verb, mode in modes.items() if not os.access(folder, mode))


def _write(database: sqlite3.Connection, steps: Sequence[Step], created: int | None) -> None:
    database.execute("BEGIN IMMEDIATE")
    try:
        for (path, node), is_ephemeral in steps:
            if node is None or is_ephemeral:
                database.execute("DELETE FROM node WHERE path = ?", (path,))
            else:
                database.execute("INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?)", (path, *node))
        if created is not None:
            # Ephemeral nodes count as well: a node created after a restart is newer than one created before.
            database.execute("INSERT OR REPLACE INTO counter VALUES ('created', ?)", (created,))
        database.execute("COMMIT")
    except BaseException:
        # After a disk failure, SQLite usually rolls back by itself, but not always.
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
