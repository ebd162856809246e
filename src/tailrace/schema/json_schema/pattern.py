"""Regular expressions of `pattern` and `patternProperties`.

Confluent compiles them with Java, JSON Schema means those of JavaScript, and a schema's author can choose one that
takes exponential time to match. RE2 matches in linear time, so it matches all that it can compile. Look-around and
back references are beyond RE2: such an expression is valid if Python can read it.
"""

import re
import warnings
from collections import OrderedDict
from threading import Lock
from typing import Any, Protocol

import re2

from tailrace.base.schema_limits import (
    REGEX_CHARACTERS_MAX,
    REGEX_PROGRAM_SIZE_MIN,
    REGEX_PROGRAMS_PER_SCHEMA_SIZE_MAX,
    REGEX_PROGRAMS_SIZE_MAX,
    REGEXES_PER_SCHEMA_MAX,
)
from tailrace.schema.language import InvalidSchema

JAVA_ONLY = re.compile(r"\\\\|\(\?<(?![=!])|\\[pP](?:\{[\w=]+\}|\w)|\\c.|\\[eRhHG]|\\k<(\w+)>|\\x\{\w+\}")
"""What Java or JavaScript can say and Python writes differently; an escaped backslash is matched to be left alone."""

SHOWN_CHARACTERS_MAX = 80


class Matcher(Protocol):
    """A compiled expression."""

    def search(self, text: str, /) -> Any:
        """Return the first match in a text, or None."""


class _Compiled:
    """Compiled expressions, up to a size of all their programs; the ones that were not used for longest go first.

    The program of `\\pL{255}` takes megabytes, that of `[a-z]+` a few hundred bytes.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[Matcher | None, int]] = OrderedDict()
        self._size = 0
        self._lock = Lock()  # a registry parses schemas in several threads

    def find(self, expression: str) -> tuple[Matcher | None, int]:
        """Return a compiled expression and the size of its program; None if RE2 cannot compile it."""
        with self._lock:
            if expression in self._known:
                self._known.move_to_end(expression)
                return self._known[expression]
        found = _compile(expression)
        with self._lock:
            self._size += found[1] - self._known.pop(expression, (None, 0))[1]
            self._known[expression] = found
            while self._size > REGEX_PROGRAMS_SIZE_MAX:
                self._size -= self._known.popitem(last=False)[1][1]
        return found


_compiled = _Compiled()


def _compile(expression: str) -> tuple[Matcher | None, int]:
    options = re2.Options()
    options.log_errors = False
    try:
        found = re2.compile(expression, options)
    except re2.error:
        return None, REGEX_PROGRAM_SIZE_MIN
    return found, REGEX_PROGRAM_SIZE_MIN + found.programsize


def linear(expression: str) -> Matcher | None:
    """Return an expression that matches in linear time; None if RE2 cannot compile it."""
    return _compiled.find(expression)[0]


class Expressions:
    """The expressions of a schema and its imports: each is checked once, and their number and size are bounded."""

    def __init__(self) -> None:
        self._checked: set[str] = set()
        self._size = 0

    def check(self, expression: str, path: str) -> None:
        """Raise InvalidSchema if an expression is none for RE2 and none for Python, or if there are too many."""
        if expression in self._checked:
            return
        if len(expression) > REGEX_CHARACTERS_MAX:
            raise InvalidSchema(
                f"{path}: the regular expression has {len(expression)} characters of at most {REGEX_CHARACTERS_MAX}"
            )
        matcher, size = _compiled.find(expression)
        if matcher is None and not _is_readable(expression):
            shown = expression[:SHOWN_CHARACTERS_MAX] + ("…" if len(expression) > SHOWN_CHARACTERS_MAX else "")
            raise InvalidSchema(f"{path}: '{shown}' is not a valid regular expression")
        self._checked.add(expression)
        self._size += size
        if len(self._checked) > REGEXES_PER_SCHEMA_MAX:
            raise InvalidSchema(f"{path}: the schema has more than {REGEXES_PER_SCHEMA_MAX} regular expressions")
        if self._size > REGEX_PROGRAMS_PER_SCHEMA_SIZE_MAX:
            raise InvalidSchema(
                f"{path}: the regular expressions of the schema repeat too much; lower the numbers in their braces"
            )


def covers(expression: str, name: str) -> bool:
    """Tell whether an expression of `patternProperties` matches the name of a property.

    An expression beyond RE2 covers no property: both it and the name come from the schema's author, and matching them
    by backtracking could take hours.
    """
    matcher = linear(expression)
    return matcher is not None and matcher.search(name) is not None


def _is_readable(expression: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sets that a later Python may read differently
            re.compile(JAVA_ONLY.sub(_in_python, expression))
    except re.error as error:
        return "look-behind requires fixed-width" in error.msg  # which Java and JavaScript do not require
    except (OverflowError, RecursionError):
        return False
    return True


def _in_python(found: re.Match[str]) -> str:
    said = found[0]
    if said == r"\\":
        return said
    if said == "(?<":
        return "(?P<"
    return f"(?P={found[1]})" if found[1] else r"\w"
