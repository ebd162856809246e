"""The part of the parser that reads options and their values."""

from tailrace.schema.protobuf.element import Literal, Option, OptionValue
from tailrace.schema.protobuf.lexer import Lexer

DEPTH_MAX = 90
"""Messages in messages and braces in options. Descriptors are messages themselves, and protobuf reads 100 levels."""


def read_options(lexer: Lexer) -> list[Option]:
    """Read options in brackets, if there are any."""
    if not lexer.skip("["):
        return []
    options = [read_option(lexer)]
    while not lexer.skip("]"):
        lexer.require(",")
        options.append(read_option(lexer))
    return options


def read_option(lexer: Lexer) -> Option:
    """Read the name of an option, the sign of equality and its value."""
    is_custom = lexer.at("(")
    names = [_name(lexer)]
    while lexer.kind == "word" and lexer.value.startswith("."):
        parts = lexer.advance()[1:].split(".")
        if parts[-1] == "":
            parts.pop()
            if not lexer.at("("):
                raise lexer.unexpected("'('")
        if "" in parts:
            raise lexer.error("the name of an option has two dots in a row")
        names += [(part, False) for part in parts]
        if lexer.at("("):
            names.append(_name(lexer))
    if len(names) + names[0][0].count(".") > DEPTH_MAX:
        raise lexer.error(f"the name of an option has more than {DEPTH_MAX} parts")
    lexer.require("=")
    value = _value(lexer, 0)
    for name, in_parentheses in reversed(names[1:]):
        value = Option(name, value, in_parentheses)
    return Option(names[0][0], value, is_custom)


def _name(lexer: Lexer) -> tuple[str, bool]:
    if lexer.skip("("):
        name = lexer.word("the name of an option")
        lexer.require(")")
        return name, True
    return lexer.word("the name of an option"), False


def _value(lexer: Lexer, depth: int) -> OptionValue:
    if depth > DEPTH_MAX:
        raise lexer.error(f"the value of an option is nested deeper than {DEPTH_MAX} levels")
    if lexer.at("{"):
        return _message(lexer, depth)
    if lexer.skip("["):
        return _list(lexer, depth)
    if lexer.kind == "string":
        return lexer.string()
    is_number = lexer.value[:1].isdigit() or lexer.value.startswith("-")
    return Literal(lexer.word("the value of an option"), is_number)


def _list(lexer: Lexer, depth: int) -> list[OptionValue]:
    values: list[OptionValue] = []
    while not lexer.skip("]"):
        values.append(_value(lexer, depth + 1))
        if not lexer.skip(",") and not lexer.at("]"):
            raise lexer.unexpected("',' or ']'")
    return values


def _message(lexer: Lexer, depth: int) -> dict[str, OptionValue]:
    """Read a message in protobuf's text format; a field that is given several times becomes a list."""
    lexer.require("{")
    values: dict[str, OptionValue] = {}
    while not lexer.skip("}"):
        name = _key(lexer)
        if not lexer.skip(":") and not lexer.at("{"):
            raise lexer.unexpected("':' or '{'")
        value = _value(lexer, depth + 1)
        before = values.get(name)
        if before is None:
            values[name] = value
        else:
            items: list[OptionValue] = before if isinstance(before, list) else [before]
            items += value if isinstance(value, list) else [value]
            values[name] = items
        if not lexer.skip(","):
            lexer.skip(";")
    return values


def _key(lexer: Lexer) -> str:
    if lexer.skip("["):
        name = lexer.word("the name of an extension")
        lexer.require("]")
        return f"[{name}]"
    return lexer.word("the name of a field")
