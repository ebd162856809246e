"""A file holds one idea and a function fits a screen. These are the ceilings; the aims are lower."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.tidy.tree import parse, python_files, shown

FILE_LINES_MAX = 500  # aim for 400
FUNCTION_LINES_MAX = 60  # aim for 40

LARGER_FILES: dict[str, str] = {
    "tests/unit/server/test_connection.py": "one connection through its whole life, on both event loops",
}
LARGER_FUNCTIONS: dict[str, str] = {}

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
FILES = python_files("src", "tests", "bench", "examples")


def line_count(path: Path) -> int:
    return path.read_text().count("\n")


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the name and the length of every function of a file."""
    for node in ast.walk(parse(path)):
        if isinstance(node, FUNCTION) and node.end_lineno is not None:
            yield f"{shown(path)}:{node.name}", node.end_lineno - node.lineno + 1


@cache
def long_functions() -> dict[str, int]:
    """Return the name and the length of every function that is too long."""
    return {name: lines for path in FILES for name, lines in functions(path) if lines > FUNCTION_LINES_MAX}


def test_no_file_is_too_long() -> None:
    found = {shown(path): line_count(path) for path in FILES if line_count(path) > FILE_LINES_MAX}
    assert {name: lines for name, lines in found.items() if name not in LARGER_FILES} == {}


def test_no_function_is_too_long() -> None:
    assert {name: lines for name, lines in long_functions().items() if name not in LARGER_FUNCTIONS} == {}


def test_the_exceptions_are_needed() -> None:
    long_files = {shown(path) for path in FILES if line_count(path) > FILE_LINES_MAX}
    assert set(LARGER_FILES) <= long_files
    assert set(LARGER_FUNCTIONS) <= set(long_functions())
    assert len(LARGER_FILES) + len(LARGER_FUNCTIONS) <= 5


@pytest.mark.parametrize("word", ["util", "helper", "manager", "common", "misc"])
def test_no_module_is_named_after_nothing(word: str) -> None:
    assert [shown(path) for path in python_files("src") if word in path.stem] == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [path for path in python_files("src") if path.read_text().strip() and not ast.get_docstring(parse(path))]
    assert [shown(path) for path in silent] == []
