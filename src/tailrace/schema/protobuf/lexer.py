"""The words, strings and marks of a .proto file, read one after the other."""

import re

from tailrace.base.sentinel import INT32_MAX
from tailrace.schema.language import InvalidSchema

_BLANK = r"(?:[ \t\r\n\f\v]++|//[^\n]*+|/\*(?>.*?\*/))*+"
_TOKEN = re.compile(
    _BLANK + r"(?:(?P<word>[A-Za-z0-9_.\-]++)|(?P<string>[\"'])|(?P<mark>[{}()\[\]<>=;,:])|(?P<end>\Z))",
    re.DOTALL,
)
_SKIPPED = re.compile(_BLANK, re.DOTALL)
_STRINGS = {mark: re.compile(rf"{mark}([^{mark}\\]*+(?:\\.[^{mark}\\]*+)*+){mark}", re.DOTALL) for mark in "\"'"}
"""All of them are possessive, so that no input makes the search go back over what it has read."""

_ESCAPE = re.compile(r"\\(?:[xX](?P<hex>[0-9a-fA-F]{1,2})|(?P<octal>[0-7]{1,3})|(?P<other>.))", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,8}|0|[1-9][0-9]{0,9})")


class Lexer:
    """Reads a text. `kind` and `value` are those of the next token: a word, a string, a mark or the end."""

    def __init__(self, text: str) -> None:
        self.kind = ""
        self.value = ""
        self._text = text
        self._start = 0
        self._end = 0
        self._counted = 0
        self._line = 1
        self.advance()

    @property
    def line(self) -> int:
        """The line of the next token."""
        self._line += self._text.count("\n", self._counted, self._start)
        self._counted = self._start
        return self._line

    def error(self, message: str) -> InvalidSchema:
        """Return an error that names the line of the next token."""
        return InvalidSchema(f"line {self.line}: {message}")

    def unexpected(self, expected: str) -> InvalidSchema:
        """Return an error for a token other than the expected one."""
        found = "the end of the file" if self.kind == "end" else f"'{self.value[:100]}'"
        return self.error(f"expected {expected} but found {found}")

    def advance(self) -> str:
        """Step to the next token and return the value of the one before."""
        passed = self.value
        found = _TOKEN.match(self._text, self._end)
        if found is None:
            self._start = self._end
            self._skip_blank()
            raise self.error(f"unexpected character {self._text[self._start]!r}")
        self.kind = str(found.lastgroup)
        self._start = found.start(self.kind)
        if self.kind == "string":
            self._read_string()
        else:
            self.value = found[self.kind]
            self._end = found.end()
        return passed

    def at(self, mark: str) -> bool:
        """Return whether the next token is a mark."""
        return self.value == mark and self.kind == "mark"

    def skip(self, mark: str) -> bool:
        """Step over a mark if it is next, and return whether it was."""
        if self.at(mark):
            self.advance()
            return True
        return False

    def require(self, mark: str) -> None:
        """Step over a mark that has to be next."""
        if not self.skip(mark):
            raise self.unexpected(f"'{mark}'")

    def word(self, expected: str) -> str:
        """Step over a word that has to be next, and return it."""
        if self.kind != "word":
            raise self.unexpected(expected)
        return self.advance()

    def string(self) -> str:
        """Step over a string that has to be next, together with those that follow it at once, and return it."""
        if self.kind != "string":
            raise self.unexpected("a quoted string")
        parts = [self.advance()]
        while self.kind == "string":
            parts.append(self.advance())
        return "".join(parts)

    def integer(self) -> int:
        """Step over an integer of 32 bits that has to be next, and return it."""
        if self.kind != "word" or not _INTEGER.fullmatch(self.value):
            raise self.unexpected("an integer")
        value = int(self.value, 0)
        if not -INT32_MAX - 1 <= value <= INT32_MAX:
            raise self.error(f"{self.value} does not fit into 32 bits")
        self.advance()
        return value

    def _read_string(self) -> None:
        found = _STRINGS[self._text[self._start]].match(self._text, self._start)
        if found is None:
            raise self.error("a string has no end")
        self.value = unescape(found[1])
        self._end = found.end()

    def _skip_blank(self) -> None:
        """Find the place of the first character that starts no token, for the error message."""
        blank = _SKIPPED.match(self._text, self._end)
        if blank is not None:
            self._start = min(blank.end(), len(self._text) - 1)


def unescape(text: str) -> str:
    """Return a quoted text with its escapes replaced; a numeric escape is the character of that code."""
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(found: re.Match[str]) -> str:
    if found["hex"]:
        return chr(int(found["hex"], 16))
    if found["octal"]:
        return chr(int(found["octal"], 8))
    return _ESCAPED.get(found["other"], found["other"])
