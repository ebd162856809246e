"""A storm of inserts, updates, deletes, new keys and altered columns in a table, whose triggers note every change.

The database knows what was committed when it is killed, and its client does not. So the truth is in the database: a
trigger notes each change in the transaction of the change.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

FIRST_ROWS = 50
ID_MAX = 100
TICK_ID = 0
"""The row whose changes keep the flows going at the end and belong to no output."""
PAUSE_S = 0.05
TICK_S = 1.0
CLOSE_TIMEOUT_S = 10.0

_TABLES = f"""
CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL, change bigint NOT NULL);
ALTER TABLE accounts REPLICA IDENTITY FULL;
CREATE TABLE audit (op text NOT NULL, id int NOT NULL, balance bigint NOT NULL, change bigint NOT NULL);
INSERT INTO accounts SELECT n, n * 10, -n FROM generate_series(0, {FIRST_ROWS - 1}) n;
INSERT INTO audit SELECT 'r', id, balance, change FROM accounts;
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND OLD.id <> NEW.id THEN
        INSERT INTO audit VALUES ('d', OLD.id, OLD.balance, OLD.change);
    END IF;
    IF TG_OP = 'INSERT' OR TG_OP = 'UPDATE' AND OLD.id <> NEW.id THEN
        INSERT INTO audit VALUES ('c', NEW.id, NEW.balance, NEW.change);
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO audit VALUES ('u', NEW.id, NEW.balance, NEW.change);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON accounts FOR EACH ROW EXECUTE FUNCTION note_change();
"""

_PUT = """
INSERT INTO accounts VALUES (%(id)s, %(balance)s, %(change)s)
ON CONFLICT (id) DO UPDATE SET balance = EXCLUDED.balance, change = EXCLUDED.change"""
_DELETE = "DELETE FROM accounts WHERE id = %(id)s"
_MOVE = """
UPDATE accounts SET id = %(new_id)s, change = %(change)s
WHERE id = %(id)s AND NOT EXISTS (SELECT FROM accounts WHERE id = %(new_id)s)"""
_TICK = f"UPDATE accounts SET change = change - 1 WHERE id = {TICK_ID}"
_COMMANDS = (_PUT, _PUT, _PUT, _DELETE, _MOVE)
_ALTERATIONS = (
    "ALTER TABLE accounts ADD COLUMN IF NOT EXISTS note text DEFAULT 'new'",
    "ALTER TABLE accounts DROP COLUMN IF EXISTS note",
    "ALTER TABLE accounts ADD COLUMN IF NOT EXISTS rank int",
    "ALTER TABLE accounts ALTER COLUMN rank TYPE bigint",
    "ALTER TABLE accounts DROP COLUMN IF EXISTS rank",
)
"""They change columns that belong to no output, in the middle of transactions that change rows."""
_ALTERATION_RATE = 0.05


class Storm(threading.Thread):
    """Changes a table until it is told to end, and then only one row that does not count."""

    def __init__(self, url: str, seed: int, may_begin: Callable[[], bool]) -> None:
        super().__init__(name="storm", daemon=True)
        self.count = 0
        self._url = url
        self._dice = Random(f"{seed} storm")
        self._may_begin = may_begin
        self._ending = threading.Event()
        self._complete = threading.Event()
        self._closing = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Begin when the first rows are copied, so that each of them is one of the snapshot."""
        try:
            while not self._ending.is_set() and not self._may_begin():
                self._ending.wait(TICK_S)
            self._repeat(self._ending, self._change, PAUSE_S)
            self._complete.set()
            self._repeat(self._closing, lambda connection: connection.execute(_TICK), TICK_S)
        except BaseException as error:
            self._failure = error
            self._complete.set()

    def _repeat(self, over: threading.Event, act: Callable[[Connection], Any], pause_s: float) -> None:
        """Do something in one transaction after another, each once or not at all if the database is killed."""
        while not over.is_set():
            try:
                with psycopg.connect(self._url, connect_timeout=5) as connection:
                    while not over.wait(pause_s):
                        with connection.transaction():
                            act(connection)
            except (psycopg.OperationalError, psycopg.InterfaceError):
                over.wait(pause_s)

    def _change(self, connection: Connection) -> None:
        for _ in range(self._dice.randint(1, 5)):
            if self._dice.random() < _ALTERATION_RATE:
                self._alter(connection)
            self.count += 1
            values = {
                "id": self._dice.randint(1, ID_MAX),
                "new_id": self._dice.randint(1, ID_MAX),
                "balance": self._dice.randrange(10**9),
                "change": self.count,
            }
            connection.execute(self._dice.choice(_COMMANDS), values)

    def _alter(self, connection: Connection) -> None:
        with contextlib.suppress(psycopg.errors.UndefinedColumn), connection.transaction():
            connection.execute(self._dice.choice(_ALTERATIONS))

    def end(self) -> int:
        """Make no more changes that count; returns how many were tried."""
        self._ending.set()
        self._complete.wait()
        self.check()
        return self.count

    def check(self) -> None:
        """Raise what went wrong, if anything."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Change nothing any more."""
        self._ending.set()
        self._closing.set()
        if self.ident is not None:
            self.join(CLOSE_TIMEOUT_S)


def create_tables(url: str) -> None:
    """Create the table with its first rows and its notes."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLES)


def read_rows(url: str, table: str, columns: str) -> Counter[str]:
    """Return the rows of a table as texts, without the row that does not count."""
    query = f"SELECT {columns} FROM {table} WHERE id <> {TICK_ID}"
    with psycopg.connect(url) as connection:
        return Counter(" ".join(map(str, row)) for row in connection.execute(query.encode()))
