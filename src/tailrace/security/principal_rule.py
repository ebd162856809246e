r"""Kafka's `ssl.principal.mapping.rules`: which user the subject of a certificate is.

Rules are separated by commas and tried in order; the first whose pattern matches the whole subject decides:

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT

`DEFAULT` takes the subject as it is. In a replacement, `$1` is a group, `${name}` a named one, and a backslash takes
the next letter as it is; a slash in a pattern is written `\/`. `L` and `U` change the case. Patterns have the syntax
of RE2, which matches in linear time and knows no lookaround and no back references; Kafka's have Java's.

A pattern is replaced wherever the subject matches it, as in Java: `.*` matches twice, once at the end, and `RULE:.*/x/`
names every client `xx`. Write `^.*$`.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import re2

_RULE = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)", re.DOTALL)
_DEFAULT: Final = "DEFAULT"
_REPLACEMENT = re.compile(
    r"\\(?P<literal>.)|\$(?:(?P<digits>[0-9]+)|\{(?P<name>[A-Za-z][A-Za-z0-9]*)\})|(?P<bad>[$\\])"
)
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


class InvalidRule(ValueError):
    """A rule that is not valid, with its number and what is wrong."""


class NoMatchingRule(Exception):
    """The subject of a certificate matches no rule, so the client is refused."""


class _Default(NamedTuple):
    def apply(self, subject: str) -> str | None:
        return subject


class _Rule(NamedTuple):
    pattern: Any
    parts: tuple[str | int, ...]
    """The replacement: texts, and the numbers of groups."""
    case: str

    def apply(self, subject: str) -> str | None:
        """Return the name of a subject, or None if it does not match."""
        if self.pattern.fullmatch(subject) is None:
            return None
        name = "".join(self._replaced(subject))
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name

    def _replaced(self, subject: str) -> Iterator[str]:
        copied = search_from = 0
        while (match := self.pattern.search(subject, search_from)) is not None:
            yield subject[copied : match.start()]
            yield from ((match.group(part) or "") if isinstance(part, int) else part for part in self.parts)
            copied = match.end()
            search_from = match.end() + (match.start() == match.end())
            if search_from > len(subject):
                break
        yield subject[copied:]


class PrincipalRules:
    """The rules of a listener."""

    def __init__(self, text: str = _DEFAULT) -> None:
        self._rules = tuple(_parse(text))

    def name(self, subject: str) -> str:
        """Return the name of the user with this subject, or raise `NoMatchingRule`."""
        for rule in self._rules:
            name = rule.apply(subject)
            if name:
                return name
            if name is not None:
                raise NoMatchingRule(f"the rules give the subject {subject} an empty name")
        raise NoMatchingRule(f"no rule matches the subject {subject}")


def _parse(text: str) -> Iterator[_Rule | _Default]:
    """Yield the rules; empty ones are left out."""
    rest, number = text.strip(), 0
    while rest:
        number += 1
        match = _RULE.match(rest)
        if match is not None:
            end = match.end()
            yield _compile(match["pattern"], match["replacement"], match["case"], number)
        else:
            end = len(_DEFAULT) if rest.startswith(_DEFAULT) else 0
            if end:
                yield _Default()
        rest = rest[end:].lstrip()
        if rest and not rest.startswith(","):
            form = "a rule is DEFAULT or RULE:pattern/replacement/ with L or U or nothing after it"
            raise InvalidRule(f"rule {number} of the principal mapping: {form}; this is left over: {rest}")
        rest = rest[1:].lstrip()


def _compile(pattern: str, replacement: str, case: str, number: int) -> _Rule:
    try:
        compiled = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        detail = error.args[0] if error.args else error
        words = detail.decode(errors="replace") if isinstance(detail, bytes) else str(detail)
        raise InvalidRule(f"rule {number} of the principal mapping: the pattern is not valid: {words}") from None
    try:
        return _Rule(compiled, tuple(_parts(replacement, compiled)), case)
    except InvalidRule as error:
        raise InvalidRule(f"rule {number} of the principal mapping: {error}") from None


def _parts(replacement: str, pattern: Any) -> Iterator[str | int]:
    """Yield the texts and the group numbers of a replacement."""
    copied = 0
    for match in _REPLACEMENT.finditer(replacement):
        yield replacement[copied : match.start()]
        copied = match.end()
        if match["literal"] is not None:
            yield match["literal"]
        elif match["digits"] is not None:
            yield from _numbered(match["digits"], pattern.groups)
        elif match["name"] is not None:
            if match["name"] not in pattern.groupindex:
                raise InvalidRule(f"the pattern has no group {match['name']}")
            yield pattern.groupindex[match["name"]]
        else:
            raise InvalidRule("a dollar sign stands before a number or {name}; write \\$ for the sign itself")
    yield replacement[copied:]


def _numbered(digits: str, group_count: int) -> Iterator[str | int]:
    """Yield the group that digits name, as many of them as make an existing group, and the rest as text."""
    group, used = int(digits[0]), 1
    while used < len(digits) and group * 10 + int(digits[used]) <= group_count:
        group, used = group * 10 + int(digits[used]), used + 1
    if group <= group_count:
        yield group
        yield digits[used:]
    elif group_count:
        yield f"${digits}"  # Kafka takes a group that does not exist as text, if there are others
    else:
        raise InvalidRule(f"the pattern has no group {digits}")
