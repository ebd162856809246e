"""The metadata store of a single broker: SQLite in its data folder.

SQLite's write-ahead log with full synchronisation gives what the interface promises: a
commit is on the disk before it returns, and a kill at any byte leaves the last commit
whole. Statements run on one worker thread, so a slow fsync never holds the event loop.
The nodes are in memory as well, where commits are decided; ephemeral ones are nowhere
else, because the process is the session.
"""

import asyncio
import errno
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import TypeVar

from runnel.coordination.reserve import Reserve
from runnel.coordination.shield import finish_anyway
from runnel.coordination.store import Node, Operation, SessionListener, SessionState, Watcher
from runnel.coordination.tree import Step, Tree
from runnel.storage.error import StorageError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS node (
    path TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    version INTEGER NOT NULL,
    created INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID
"""
_COUNTER_SCHEMA = "CREATE TABLE IF NOT EXISTS counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID"

T = TypeVar("T")


class EmbeddedStore:
    """A `MetadataStore` in one file, for one process."""

    session_state = SessionState.CONNECTED

    def __init__(self, path: Path, reserve: Reserve | None = None) -> None:
        self._path = path
        self._reserve = reserve
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="runnel-metadata")
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
        # A caller that is cancelled must not keep a durable change from the watchers.
        await finish_anyway(self._commit_and_notify(tuple(operations)))

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def lease_until_ms(self) -> float:
        return inf

    def on_session(self, listener: SessionListener) -> None:
        """Nobody is ever told: the session is the process."""

    async def wait_connected(self) -> None:
        """It always is."""

    async def close(self) -> None:
        async with self._commits:
            await self._run(sqlite3.Connection.close)
        self._thread.shutdown()

    async def _commit_and_notify(self, operations: tuple[Operation, ...]) -> None:
        # The lock keeps what is decided true until it is replayed, and notifications in commit order.
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
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute(_SCHEMA)
        database.execute(_COUNTER_SCHEMA)
        if "created" not in {row[1] for row in database.execute("PRAGMA table_info(node)")}:
            # A file of a version that did not count.
            database.execute("ALTER TABLE node ADD COLUMN created INTEGER NOT NULL DEFAULT 0")
        return database, _read(database)
    except sqlite3.Error:
        database.close()
        raise


def _read(database: sqlite3.Connection) -> Tree:
    nodes = {path: Node(*rest) for path, *rest in database.execute("SELECT path, value, version, created FROM node")}
    counter = database.execute("SELECT value FROM counter WHERE name = 'created'").fetchone()
    return Tree(nodes, counter[0] if counter else 0)


def _storage_error(path: Path, error: sqlite3.Error) -> StorageError:
    return StorageError(str(path), OSError(errno.EIO, str(error)))


def _write(database: sqlite3.Connection, steps: Sequence[Step], created: int | None) -> None:
    database.execute("BEGIN IMMEDIATE")
    try:
        for (path, node), is_ephemeral in steps:
            if node is None or is_ephemeral:
                database.execute("DELETE FROM node WHERE path = ?", (path,))
            else:
                database.execute("INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?)", (path, *node))
        if created is not None:
            # Ephemeral nodes count as well: one made after a restart is younger than one made before it.
            database.execute("INSERT OR REPLACE INTO counter VALUES ('created', ?)", (created,))
        database.execute("COMMIT")
    except BaseException:
        # SQLite has rolled back by itself where the disk failed, but not always.
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
