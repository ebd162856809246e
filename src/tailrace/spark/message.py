"""Messages of Spark as one line for users."""

import re
from typing import NamedTuple

_CONDITION = re.compile(r"^\[[A-Z][\w.]*\] ?")
_STATE = re.compile(r" ?SQLSTATE: \w+")
_POSITION = re.compile(r"[;.]* *\(?line (\d+),? pos \d+\)?[;.]*$")
_LENGTH_MAX = 500
_PIECE_LENGTH_MAX = 60


def shorten(text: str) -> str:
    """Return the text as one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= _LENGTH_MAX else line[: _LENGTH_MAX - 1] + "…"


def clean(message: str) -> str:
    """Return a message of Spark without its error codes."""
    return _STATE.sub("", _CONDITION.sub("", message.strip()))


class QueryError(NamedTuple):
    """What Spark says about a query that it refuses, and the line of the query."""

    reason: str
    line: int


def explain_query(message: str) -> QueryError:
    """Return the reason and the line in Spark's message about a query, an expression or a schema."""
    # The text of a syntax error begins with an empty line; a plan or the query itself follows the first sentence.
    first = clean(message.strip().split("\n")[0]).removesuffix(";")
    found = _POSITION.search(first)
    return QueryError(first, 1) if found is None else QueryError(first[: found.start()], int(found[1]))


def piece(value: bytes | None) -> str:
    """Return the beginning of a value for an error message: its text, or its bytes in hexadecimal."""
    if value is None:
        return "null"
    start = value[:_PIECE_LENGTH_MAX]
    more = "…" if len(value) > _PIECE_LENGTH_MAX else ""
    text = start.decode(errors="ignore" if more else "replace")  # the cut may be within a character
    if text and text.replace("\n", "").replace("\t", "").isprintable() and "�" not in text:
        return f"{' '.join(text.split())}{more}"
    return f"0x{start[: _PIECE_LENGTH_MAX // 2].hex()}{'…' if len(value) > _PIECE_LENGTH_MAX // 2 else ''}"
