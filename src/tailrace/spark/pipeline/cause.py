"""The one-line cause of a query that failed or could not start."""

import re
import traceback
from pathlib import Path
from typing import NamedTuple

from tailrace.spark.connector.files import NOT_A_ROW
from tailrace.spark.connector.topic.json_value import NOT_JSON
from tailrace.spark.error import PipelineError, RowRefused
from tailrace.spark.message import clean, explain_query, shorten

_PYTHON_ERROR = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*): (.+)$")
_JAVA_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+): (.+)$", re.MULTILINE)
_JAVA_CAUSE_LINES = re.compile(r"^Caused by: (?:[\w$]+\.)*[\w$]+: (.+(?:\n(?!\t|Caused by: ).+)*)", re.MULTILINE)
_FILE_READ = re.compile(r"Encountered error while reading file (\S+?)\.(?=\s|$)")
_FILE_LINE = re.compile(r'^\s*File "([^"]+)", line (\d+)', re.MULTILINE)

RAISED = "[USER_RAISED_EXCEPTION]"
"""Spark's name for an error of `raise_error`, whose text is written for users."""

_REFUSED = f"{RowRefused.__module__}.{RowRefused.__qualname__}"
_CONTINUE = 'to continue, set errors= of the flow to "skip" or {"to": TOPIC}'

_HINTS = (
    # Before all others, because such a line has a piece of a value, in which anything may stand.
    (NOT_JSON, f'{_CONTINUE}, or malformed="null" of topic()'),
    (NOT_A_ROW, f'{_CONTINUE}, or malformed="null" of files()'),
    (
        "No space left on device",
        "a disk that holds checkpoints or Spark's temporary files is full; make room",
    ),
    (
        "Invalid streaming output mode: append",
        'give the rows a watermark (withWatermark), or write to a topic with mode="update"',
    ),
)
"""Advice for frequent errors of Spark."""

_NO_MESSAGE = "(no cause message)"
"""In place of the message of a query's failure: its cause in Java has none."""


def explain_failure(error: BaseException, file: Path) -> str:
    """Return the cause of an error in a query over this file's functions."""
    if isinstance(error, PipelineError):
        return str(error)
    text = failure_text(error)
    return shorten(_with_hint(_in_file(error) or _in_python(text, file) or _in_java(text) or _plain(error, file)))


def failure_text(error: BaseException) -> str:
    """Return the text of an error. If a query failed by one of Java without a message, its trace is part of the text.

    An EOFException is one: it is all that Spark says when a Python process of the driver was killed.
    """
    text = str(error)
    trace = getattr(getattr(error, "_cause", None), "_stackTrace", None)
    if not trace or _NO_MESSAGE not in text:
        return text
    kind = trace.partition("\n")[0]
    return f"{text.replace(_NO_MESSAGE, kind)}\nCaused by: {trace}"


class PythonError(NamedTuple):
    """The error at the end of a traceback: its full class name, its message, and its frames."""

    kind: str
    message: str
    frames: str


def last_python_error(text: str) -> PythonError | None:
    """Return the error of the last traceback in a text; None without one."""
    _, found, trace = text.rpartition("Traceback (most recent call last):")
    lines = trace.splitlines() if found else []
    for index, line in enumerate(lines):
        if match := _PYTHON_ERROR.match(line):
            return PythonError(match[1], match[2], "\n".join(lines[:index]))
    return None


def _in_python(text: str, file: Path) -> str | None:
    """Return the last error in a worker's traceback, with the line in the user's file if there is one."""
    error = last_python_error(text)
    if error is None:
        return None
    places = [number for name, number in _FILE_LINE.findall(error.frames) if name == str(file)]
    # Errors of the data source are written for users, so they need no class name.
    kind = "" if error.kind.startswith("tailrace.") else f"{error.kind.rpartition('.')[2]}: "
    place = f"{file.name}:{places[-1]}: " if places else ""
    hint = f": {_CONTINUE}" if error.kind == _REFUSED else ""
    return f"{place}{kind}{clean(error.message)}{hint}"


def _in_file(error: BaseException) -> str | None:
    """Return the cause of a file that could not be read, with its path."""
    # The text of a query's exception has no causes; the exception that caused it has those of its own.
    text = f"{error}\n{getattr(getattr(error, '_cause', None), '_stackTrace', '')}"
    file, causes = _FILE_READ.search(text), _JAVA_CAUSE_LINES.findall(text)
    if file is None:
        return None
    return f"{file[1]}: {clean(causes[-1]) if causes else 'the file cannot be read'}"


def _in_java(text: str) -> str | None:
    causes = _JAVA_CAUSE.findall(text)
    if not causes:
        return None
    kind, message = causes[-1]
    return clean(message) if message.startswith(RAISED) else f"{kind}: {clean(message)}"


def _plain(error: BaseException, file: Path) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    place = f"{file.name}:{lines[-1]}: " if lines else ""
    reason, line = explain_query(failure_text(error).partition("\nCaused by: ")[0])
    kind = "" if type(error).__module__.startswith(("pyspark.", "tailrace.")) else f"{type(error).__name__}: "
    return f"{place}{kind}{reason}{f' (line {line} of the query)' if line > 1 else ''}"


def _with_hint(line: str) -> str:
    for part, hint in _HINTS:
        if part in line and _CONTINUE not in line:
            return f"{line.rstrip('.')}: {hint}"
    return line
