"""Java's properties format, in the corners that its documentation names and that real files have."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.config.properties import PropertiesError, Property, format_properties, parse_properties, read_properties


def pairs(text: str) -> list[tuple[str, str]]:
    return [(entry.name, entry.value) for entry in parse_properties(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a=b", [("a", "b")]),
        ("a:b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("a = b", [("a", "b")]),
        ("a\t:\tb", [("a", "b")]),
        ("a == b", [("a", "= b")]),
        ("a : = b", [("a", "= b")]),
        ("  a=b  ", [("a", "b  ")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("=b", [("", "b")]),
        ("# comment\n! comment\n  # comment\na=b # part of the value", [("a", "b # part of the value")]),
        ("# not continued \\\na=b", [("a", "b")]),
        ("a=1\r\nb=2\rc=3\nd=4", [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]),
        ("a=one,\\\n    two,\\\n\tthree", [("a", "one,two,three")]),
        ("a=one\\\r\n   two", [("a", "onetwo")]),
        ("a=one\\\n# still the value", [("a", "one# still the value")]),
        ("a=one\\\n\nb=2", [("a", "one"), ("b", "2")]),
        ("a=even\\\\\nb=2", [("a", "even\\"), ("b", "2")]),
        ("a=odd\\\\\\\nb=2", [("a", "odd\\b=2")]),
        ("a=ends\\", [("a", "ends")]),
        ("a\\\nb=c", [("ab", "c")]),
        (r"with\ blank\:and\=signs=v", [("with blank:and=signs", "v")]),
        (r"a=\t\n\r\f\\\z\"", [("a", '\t\n\r\f\\z"')]),
        (r"a=\u0041\u00e9\u20AC", [("a", "Aé€")]),
        (r"\u006b=\ud83d\ude00", [("k", "😀")]),
        (r"a=C:\\logs", [("a", r"C:\logs")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
        ("a=\u00a0b\u2028c", [("a", "\u00a0b\u2028c")]),
        (
            "log.dirs=/tmp/logs\nlisteners=PLAINTEXT://:9092",
            [("log.dirs", "/tmp/logs"), ("listeners", "PLAINTEXT://:9092")],
        ),
    ],
)
def test_parse(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_an_entry_knows_the_line_on_which_it_begins() -> None:
    text = "# one\n\na=1\\\n  2\nb=3\n"
    assert parse_properties(text) == [Property("a", "12", 3), Property("b", "3", 5)]


@pytest.mark.parametrize("text", [r"a=\u00g0", r"a=\u12", r"a=\u", r"\uXYZW=1"])
def test_a_malformed_unicode_escape_names_its_line(text: str) -> None:
    with pytest.raises(PropertiesError, match="line 2: malformed"):
        parse_properties("x=1\n" + text)


def test_a_lone_surrogate_does_not_escape_as_an_encoding_error() -> None:
    assert pairs(r"a=x\ud83dy") == [("a", "x\ufffdy")]


@pytest.mark.parametrize("content", ["a=é".encode(), "a=é".encode("latin-1"), b"\xef\xbb\xbfa=\xc3\xa9"])
def test_a_file_is_utf8_or_latin1(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(content)
    assert read_properties(path) == [Property("a", "é", 1)]


def test_format_escapes_what_would_be_read_as_something_else() -> None:
    written = format_properties({"a b": " x=:#!\\ y", "é": "\t😀"}, comment="made\nhere")
    assert written == "#made\n#here\na\\ b=\\ x\\=\\:\\#\\!\\\\ y\n\\u00E9=\\t\\uD83D\\uDE00\n"


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), st.text(st.characters(codec="utf-8"))))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    assert dict(pairs(format_properties(properties, comment="any"))) == properties


@given(st.text(st.sampled_from("a=: \\u0\n\r\t#!é")))
def test_any_text_parses_or_is_refused(text: str) -> None:
    with contextlib.suppress(PropertiesError):
        parse_properties(text)
