"""The one line that says why a query could not start, or has failed."""

import re
import traceback
from pathlib import Path
from typing import NamedTuple

from runnel.spark.pipeline.error import PipelineError

_PYTHON_ERROR = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*): (.+)$")
_JAVA_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+): (.+)$", re.MULTILINE)
_CONDITION = re.compile(r"^\[[A-Z][\w.]*\] ?")
_STATE = re.compile(r" ?SQLSTATE: \w+")
_FILE_LINE = re.compile(r'^\s*File "([^"]+)", line (\d+)', re.MULTILINE)
_LENGTH_MAX = 500

_HINTS = (
    (
        "Invalid streaming output mode: append",
        'give the rows a watermark (withWatermark), or write to a topic with mode="update"',
    ),
    (
        "Malformed records are detected",
        'a value is no JSON of the schema, and topic(…, malformed="drop") or malformed="null" would go on',
    ),
)
"""What to do, for errors of Spark that many people meet."""


def explain_failure(error: BaseException, file: Path) -> str:
    """Why, for an error that was raised in building or running a query over this file's functions."""
    if isinstance(error, PipelineError):
        return str(error)
    text = str(error)
    return shorten(_with_hint(_in_python(text, file) or _in_java(text) or _plain(error, file)))


def shorten(text: str) -> str:
    """The text on one line that is not too long."""
    line = " ".join(text.split())
    return line if len(line) <= _LENGTH_MAX else line[: _LENGTH_MAX - 1] + "…"


class PythonError(NamedTuple):
    """An error as a traceback ends with it: its class by its full name, its message, and the frames above."""

    kind: str
    message: str
    frames: str


def last_python_error(text: str) -> PythonError | None:
    """The error of the last traceback in a text; None without one."""
    _, found, trace = text.rpartition("Traceback (most recent call last):")
    lines = trace.splitlines() if found else []
    for index, line in enumerate(lines):
        if match := _PYTHON_ERROR.match(line):
            return PythonError(match[1], match[2], "\n".join(lines[:index]))
    return None


def _in_python(text: str, file: Path) -> str | None:
    """The last error of a traceback that a Python worker sent; with the user's line when it went through the file."""
    error = last_python_error(text)
    if error is None:
        return None
    places = [number for name, number in _FILE_LINE.findall(error.frames) if name == str(file)]
    # What the data source says is written for users, and needs no name of a class.
    kind = "" if error.kind.startswith("runnel.") else f"{error.kind.rpartition('.')[2]}: "
    place = f"{file.name}:{places[-1]}: " if places else ""
    return f"{place}{kind}{clean(error.message)}"


def _in_java(text: str) -> str | None:
    causes = _JAVA_CAUSE.findall(text)
    if not causes:
        return None
    kind, message = causes[-1]
    return f"{kind}: {clean(message)}"


def _plain(error: BaseException, file: Path) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    place = f"{file.name}:{lines[-1]}: " if lines else ""
    message = clean(str(error).strip().split("\n\n")[0].split(";\n")[0].split("\n")[0])
    kind = "" if type(error).__module__.startswith(("pyspark.", "runnel.")) else f"{type(error).__name__}: "
    return f"{place}{kind}{message}"


def clean(message: str) -> str:
    """A message of Spark without its codes."""
    return _STATE.sub("", _CONDITION.sub("", message.strip()))


def _with_hint(line: str) -> str:
    for part, hint in _HINTS:
        if part in line:
            return f"{line.rstrip('.')}: {hint}"
    return line
