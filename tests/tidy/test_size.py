"""A file holds one idea and a function fits a screen. These are the ceilings; the aims are lower."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tidy.tree import parse, python_files, shown

FILE_LINES_MAX = 500  # aim for 400
FUNCTION_LINES_MAX = 60  # aim for 40

LARGER_FILES: dict[str, str] = {
    "tests/unit/server/test_connection.py": "one connection through its whole life, on both event loops",
}
LARGER_FUNCTIONS: dict[str, str] = {}

FILES = python_files("src", "tests", "bench", "examples")


def line_count(path: Path) -> int:
    return path.read_text().count("\n")


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """The name and the length of every function."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield f"{shown(path)}:{node.name}", node.end_lineno - node.lineno + 1


def test_no_file_is_too_long() -> None:
    found = {shown(path): line_count(path) for path in FILES if line_count(path) > FILE_LINES_MAX}
    assert {name: lines for name, lines in found.items() if name not in LARGER_FILES} == {}


def test_no_function_is_too_long() -> None:
    found = {name: lines for path in FILES for name, lines in functions(path) if lines > FUNCTION_LINES_MAX}
    assert {name: lines for name, lines in found.items() if name not in LARGER_FUNCTIONS} == {}


def test_the_exceptions_are_needed() -> None:
    long_files = {shown(path) for path in FILES if line_count(path) > FILE_LINES_MAX}
    long_functions = {name for path in FILES for name, lines in functions(path) if lines > FUNCTION_LINES_MAX}
    assert set(LARGER_FILES) <= long_files
    assert set(LARGER_FUNCTIONS) <= long_functions
    assert len(LARGER_FILES) + len(LARGER_FUNCTIONS) <= 5


@pytest.mark.parametrize("word", ["util", "helper", "manager", "common", "misc"])
def test_no_module_is_named_after_nothing(word: str) -> None:
    assert [shown(path) for path in python_files("src") if word in path.stem] == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [path for path in python_files("src") if path.read_text().strip() and not ast.get_docstring(parse(path))]
    assert [shown(path) for path in silent] == []
