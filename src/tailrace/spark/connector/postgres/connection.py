"""Connections to a PostgreSQL database, and its errors as those of connectors.

The password is part of `Database`, which is sent to tasks with the functions of the flow. It is in no option of
Spark, in no text of a `Database` and in no error.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.spark.error import ConnectorError, PipelineError, RetriableConnectorError
from tailrace.spark.message import shorten

if TYPE_CHECKING:
    import psycopg

VERSION_MIN = 130000
"""PostgreSQL 13 is the first one with `pg_current_snapshot`."""

# A server that vanishes without a word is noticed within two minutes.
_DEFAULTS = {
    "connect_timeout": "10",
    "application_name": "tailrace",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "6",
    "tcp_user_timeout": "90000",
}
_FORM = "postgresql://user:password@host:5432/database"
# Values are read and written as text, so every session has to write and read them in the same way.
_SESSION = (
    "SET timezone = 'UTC'; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'iso_8601'; SET bytea_output = 'hex'; "
    "SET extra_float_digits = 1; SET idle_in_transaction_session_timeout = 0; SET standard_conforming_strings = on"
)
_PASSING_CLASSES = ("08", "40", "53")  # connection lost; conflict of transactions; too few resources
_PASSING_STATES = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "55P03"})
_PASSING_WORDS = ("starting up", "shutting down", "recovery mode", "not yet accepting", "too many", "connection slots")
_DATA_STATES = ("22", "23", "44", "P0001")
"""A value that its column cannot hold; a constraint; the check option of a view; the RAISE of a trigger."""


@dataclass(frozen=True, slots=True, repr=False)
class Database:
    """A database, and the user that works in it."""

    conninfo: str
    shown: str

    def __str__(self) -> str:
        return self.shown

    __repr__ = __str__

    def connect(self, *, doing: str, autocommit: bool = False) -> "psycopg.Connection[Any]":
        """Return a new connection; raises `ConnectorError` that names the database and the reason."""
        import psycopg

        with explained(doing):
            try:
                connection = psycopg.connect(self.conninfo, autocommit=True)
            except psycopg.OperationalError as error:
                kind = RetriableConnectorError if can_pass(error) else ConnectorError
                raise kind(f"{doing}: {self} cannot be reached: {_reason(error)}") from None
            try:
                connection.execute(_SESSION)
                if connection.info.server_version < VERSION_MIN:
                    raise ConnectorError(f"{doing}: {self} runs PostgreSQL before 13, which is too old")
                connection.autocommit = autocommit
            except BaseException:
                connection.close()
                raise
            return connection


def parse_database(place: str, url: object) -> Database:
    """Return the database of a URL; raises `PipelineError`. The password may be that of PGPASSWORD."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict, make_conninfo
    except ImportError:
        raise PipelineError(f"{place} needs the extra [postgres], which brings psycopg") from None
    if not isinstance(url, str) or not url.startswith(("postgresql://", "postgres://")):
        raise PipelineError(f"{place}: url= is a text such as {_FORM}")
    try:
        found = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except ProgrammingError:  # its message repeats a part of the URL, which may be the password
        raise PipelineError(
            f"{place}: url= is not a URL such as {_FORM}; special characters are written as %XX"
        ) from None
    secret = found.get("password") or os.environ.get("PGPASSWORD")
    if "@" in found.get("dbname", "") or not set(found.get("port", "")) <= set("0123456789,"):
        # A password with a slash: what follows it would be shown as the name of the database.
        raise PipelineError(f"{place}: url= is not a URL such as {_FORM}; special characters are written as %XX")
    defaults = _DEFAULTS.copy()
    if secret:
        defaults["password"] = secret
    at = ",".join(
        f"{host}:{port}" if port else host
        for host, port in _pairs(found.get("host", "localhost"), found.get("port", ""))
    )
    user = f"{found['user']}@" if "user" in found else ""
    shown = f"postgresql://{user}{at}/{found.get('dbname', '')}"
    return Database(make_conninfo(**(defaults | found | {"client_encoding": "UTF8"})), shown)


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Raise the errors of the database as `ConnectorError`, retriable ones as `RetriableConnectorError`."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        kind = RetriableConnectorError if can_pass(error) else ConnectorError
        raise kind(f"{doing}: {_reason(error)}") from None


def can_pass(error: "psycopg.Error") -> bool:
    """Return whether the same command may succeed later."""
    import psycopg

    state = error.sqlstate
    if state is not None:
        return state.startswith(_PASSING_CLASSES) or state in _PASSING_STATES
    if not isinstance(error, psycopg.OperationalError):
        return False
    text = str(error)
    return "FATAL" not in text or any(words in text for words in _PASSING_WORDS)


def is_of_row(error: "psycopg.Error") -> bool:
    """Return whether a row is the reason: a value that does not fit its column, a constraint, or a trigger."""
    return error.sqlstate is not None and error.sqlstate.startswith(_DATA_STATES)


def reason_of_row(error: "psycopg.Error") -> str:
    """Return why the database refused a row, with the name of the constraint, and without values, which the row has."""
    name = error.diag.constraint_name
    text = error.diag.message_primary or _reason(error)
    return text if name is None or name in text else f"{text} (constraint {name})"


def _reason(error: "psycopg.Error") -> str:
    diagnosis = error.diag
    if diagnosis.message_primary:
        return shorten("; ".join(filter(None, (diagnosis.message_primary, diagnosis.message_detail))))
    return shorten(str(error) or type(error).__name__)


def _pairs(hosts: str, ports: str) -> list[tuple[str, str]]:
    """Return the hosts of a URL with their ports; a single port is that of all hosts."""
    names, numbers = hosts.split(","), ports.split(",")
    numbers = numbers * len(names) if len(numbers) == 1 else numbers
    return list(zip(names, numbers, strict=False))
