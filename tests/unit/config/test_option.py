"""Single options: what text they take, what they refuse and how they say so."""

from typing import Any

import pytest

from tailrace.base.invariant import InvariantError
from tailrace.config.check import at_least, between, non_empty_list, one_of, only, unlimited_or_at_least
from tailrace.config.configuration import Configuration
from tailrace.config.declaration import (
    boolean,
    double,
    integer,
    long,
    nullable_long,
    password,
    short,
    string,
    string_list,
)
from tailrace.config.error import ConfigError
from tailrace.config.option import Option, OptionType, parse_list, render_value

BOOLEAN = boolean("a.flag", True, "A flag.")
INT = integer("an.int", 1, "A number.")
LONG = long("a.long", 1, "A number.")
SHORT = short("a.short", 1, "A number.")
DOUBLE = double("a.double", 0.5, "A number.")
STRING = string("a.string", "x", "A text.")
LIST = string_list("a.list", (), "A list.")


def refusal(option: Option[Any], text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        option.parse(text)
    assert caught.value.name == option.name
    return caught.value.message


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (BOOLEAN, "true", True),
        (BOOLEAN, " FALSE ", False),
        (INT, "+7", 7),
        (INT, " -2147483648 ", -(2**31)),
        (INT, "2147483647", 2**31 - 1),
        (INT, "007", 7),
        (LONG, "9223372036854775807", 2**63 - 1),
        (LONG, "-9223372036854775808", -(2**63)),
        (SHORT, "-32768", -(2**15)),
        (DOUBLE, "0.25", 0.25),
        (DOUBLE, "1e3", 1000.0),
        (DOUBLE, "-.5", -0.5),
        (STRING, "  padded  ", "padded"),
        (STRING, "", ""),
        (LIST, "a , b,c", ("a", "b", "c")),
        (LIST, "", ()),
        (LIST, "a,,b", ("a", "", "b")),
    ],
)
def test_text_becomes_a_typed_value(option: Option[object], text: str, value: object) -> None:
    assert option.parse(text) == value
    assert type(option.parse(text)) is type(value)


@pytest.mark.parametrize(
    ("option", "text", "reason"),
    [
        (BOOLEAN, "yes", "must be true or false"),
        (BOOLEAN, "1", "must be true or false"),
        (INT, "2147483648", "must be a 32-bit whole number"),
        (INT, "-2147483649", "must be a 32-bit whole number"),
        (INT, "1_000", "must be a 32-bit whole number"),
        (INT, "1.0", "must be a 32-bit whole number"),
        (INT, "0x10", "must be a 32-bit whole number"),
        (INT, "٣", "must be a 32-bit whole number"),
        (INT, "", "must be a 32-bit whole number"),
        (INT, "9" * 10_000, "must be a 32-bit whole number"),
        (LONG, "9223372036854775808", "must be a 64-bit whole number"),
        (SHORT, "32768", "must be a 16-bit whole number"),
        (DOUBLE, "nan", "must be a number"),
        (DOUBLE, "inf", "must be a number"),
        (DOUBLE, "1,5", "must be a number"),
    ],
)
def test_bad_text_is_refused_with_the_reason(option: Option[object], text: str, reason: str) -> None:
    assert refusal(option, text) == f"Invalid value {text!r} for {option.name}: {reason}"


@pytest.mark.parametrize(
    ("option", "good", "bad", "reason"),
    [
        (integer("n", 1, "N.", check=at_least(1)), "1", "0", "must be at least 1"),
        (double("n", 0.5, "N.", check=between(0, 1)), "1", "1.5", "must be between 0 and 1"),
        (integer("n", 1, "N.", check=unlimited_or_at_least(1)), "-1", "-2", "must be -1 (no limit) or at least 1"),
        (integer("n", 1, "N.", check=unlimited_or_at_least(1)), "1", "0", "must be -1 (no limit) or at least 1"),
        (string("s", "a", "S.", check=one_of("a", "b")), "b", "c", "must be one of a, b"),
        (string("s", "a", "S.", check=only("a", "b is to come")), "a", "b", "b is to come; it must be a"),
        (
            string_list("l", (), "L.", check=non_empty_list()),
            "a,b",
            "a,a",
            "must be a list of different, non-empty items",
        ),
        (string_list("l", (), "L.", check=non_empty_list()), "a", "", "must be a list of different, non-empty items"),
    ],
)
def test_a_check_accepts_and_refuses(option: Option[object], good: str, bad: str, reason: str) -> None:
    option.parse(good)
    assert refusal(option, bad).endswith(f": {reason}")


def test_a_secret_is_never_shown_in_an_error() -> None:
    secret = password("a.secret", "Do not tell.", check=one_of("open sesame"))
    assert secret.sensitive
    assert "hunter2" not in refusal(secret, "hunter2")


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (7, "7"), (0.5, "0.5"), ("x", "x"), (("a", "b"), "a,b"), ((), ""), (None, None)],
)
def test_values_are_shown_as_kafka_shows_them(value: object, text: str | None) -> None:
    assert render_value(value) == text


def test_wire_codes_of_types_are_kafkas() -> None:
    assert {kind.name: kind.value for kind in OptionType} == {
        "BOOLEAN": 1,
        "STRING": 2,
        "INT": 3,
        "SHORT": 4,
        "LONG": 5,
        "DOUBLE": 6,
        "LIST": 7,
        "CLASS": 8,
        "PASSWORD": 9,
    }


def test_an_option_declared_under_another_attribute_is_a_bug() -> None:
    # Python 3.11 wraps what __set_name__ raises in a RuntimeError; later versions do not.
    with pytest.raises((InvariantError, RuntimeError)):
        type("Wrong", (Configuration,), {"segment_size": long("segment.bytes", 1, "Wrong.")})


def test_a_name_declared_twice_is_a_bug() -> None:
    first = type("First", (Configuration,), {"a_b": nullable_long("a.b", "Once.")})
    with pytest.raises(InvariantError, match=r"a\.b is declared twice"):
        type("Second", (first,), {"a_b": nullable_long("a.b", "Twice.")})


def test_an_option_read_from_its_class_is_its_declaration() -> None:
    class Example(Configuration):
        a_flag = BOOLEAN

    assert Example.a_flag.default is True
    assert list(Example.options) == ["a.flag"]


@pytest.mark.timeout(60)
def test_blanks_between_the_items_of_a_list_are_read_in_one_pass() -> None:
    """A run of blanks without a comma was read again from each of them: this text took hours."""
    assert parse_list("a" + " " * 2_000_000 + "b")[0].startswith("a ")
    assert parse_list("a ,\t\u2003b,, c") == ("a", "b", "", "c")
