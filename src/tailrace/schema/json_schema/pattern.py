"""Regular expressions of `pattern` and `patternProperties`.

Confluent compiles them with Java, JSON Schema means those of JavaScript, and a schema's author can choose one that
takes exponential time to match. RE2 matches in linear time, so it matches all that it can compile. Look-around and
back references are beyond RE2: such an expression is valid if Python can read it.
"""

import re
import warnings
from functools import lru_cache
from typing import Any, Protocol

import re2

from tailrace.schema.language import InvalidSchema

JAVA_ONLY = re.compile(r"\\\\|\(\?<(?![=!])|\\[pP](?:\{[\w=]+\}|\w)|\\c.|\\[eRhHG]|\\k<(\w+)>|\\x\{\w+\}")
"""What Java or JavaScript can say and Python writes differently; an escaped backslash is matched to be left alone."""

SHOWN_CHARACTERS_MAX = 80


class Matcher(Protocol):
    """A compiled expression."""

    def search(self, text: str, /) -> Any:
        """Return the first match in a text, or None."""


@lru_cache(maxsize=4096)
def linear(expression: str) -> Matcher | None:
    """Return an expression that matches in linear time; None if RE2 cannot compile it."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Matcher = re2.compile(expression, options)
    except re2.error:
        return None
    return compiled


def check_expression(expression: str, path: str) -> None:
    """Raise InvalidSchema if an expression is none for RE2 and none for Python."""
    if linear(expression) is None and not _is_readable(expression):
        shown = expression[:SHOWN_CHARACTERS_MAX] + ("…" if len(expression) > SHOWN_CHARACTERS_MAX else "")
        raise InvalidSchema(f"{path}: '{shown}' is not a valid regular expression")


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
