"""Java's .properties format, which Kafka's server.properties and meta.properties use."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX4 = re.compile(r"[0-9a-fA-F]{4}", re.ASCII)


class PropertiesError(ValueError):
    """A properties file is malformed at a line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


@dataclass(frozen=True, slots=True)
class Property:
    """One entry of a properties file and the line on which it begins."""

    name: str
    value: str
    line: int


def parse_properties(text: str) -> list[Property]:
    """Return the entries in order, repeated names included, or raise `PropertiesError`."""
    return [_split_entry(line, number) for number, line in _logical_lines(text)]


def read_properties(path: Path) -> list[Property]:
    """Parse a file; raises `PropertiesError` if it is malformed."""
    return decode_properties(path.read_bytes())


def decode_properties(content: bytes) -> list[Property]:
    """Parse the content of a file as UTF-8 or, if it is not valid UTF-8, as Latin-1, which Java expects."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return parse_properties(text)


def format_properties(properties: Mapping[str, str], comment: str = "") -> str:
    """Return text that Java and `parse_properties` parse into the same names and values."""
    lines = [f"#{line}" for line in _LINE_END.split(comment)] if comment else []
    lines += [f"{_escape(name, is_name=True)}={_escape(value, is_name=False)}" for name, value in properties.items()]
    return "".join(f"{line}\n" for line in lines)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines and drop comments and blank lines, keeping the number of each first line."""
    pending: str | None = None
    start = 0
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_BLANK)
        if pending is None:
            # A comment cannot be continued, and only the first line of an entry can be one.
            if not line or line[0] in "#!":
                continue
            pending, start = "", number
        if _ends_with_continuation(line):
            pending += line[:-1]
        else:
            yield start, pending + line
            pending = None
    if pending:
        yield start, pending


def _ends_with_continuation(line: str) -> bool:
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1


def _split_entry(line: str, number: int) -> Property:
    end = 0
    while end < len(line) and line[end] not in "=:" and line[end] not in _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return Property(_unescape(line[:end], number), _unescape(rest, number), number)


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        backslash = text.find("\\", position)
        if backslash < 0:
            break
        parts.append(text[position:backslash])
        escaped = text[backslash + 1 : backslash + 2]
        position = backslash + 2
        if escaped == "u":
            digits = text[position : position + 4]
            if not _HEX4.fullmatch(digits):
                raise PropertiesError(number, f"malformed \\u escape {digits!r}")
            parts.append(chr(int(digits, 16)))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    parts.append(text[position:])
    # Java writes characters beyond 16 bits as two escapes; joined they are one character again.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, *, is_name: bool) -> str:
    escaped = []
    for index, character in enumerate(text):
        if character in "\t\n\r\f":
            escaped.append("\\" + "tnrf"["\t\n\r\f".index(character)])
        elif character in "\\#!=:" or (character == " " and (is_name or index == 0)):
            escaped.append("\\" + character)
        elif " " <= character <= "~":
            escaped.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            escaped += [f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2)]
    return "".join(escaped)
