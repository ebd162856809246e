"""Every row about hostile input has its tests, and they exist."""

import ast
import json
from functools import cache
from pathlib import Path

import pytest
from tests.protocol.bad_input_row import ROWS

ROOT = Path(__file__).resolve().parents[2]
ROW_COUNT = 56


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def answers() -> frozenset[str]:
    return frozenset(json.loads((ROOT / "tests/clients/kafka_answers.json").read_text())["answers"])


def test_every_row_is_there() -> None:
    assert list(ROWS) == list(range(1, ROW_COUNT + 1))


@pytest.mark.parametrize("number", ROWS)
def test_the_tests_of_a_row_exist(number: int) -> None:
    row = ROWS[number]
    assert row.tests
    for test in row.tests:
        if test.startswith("answer "):
            assert test.removeprefix("answer ") in answers()
        else:
            path, _, function = test.partition("::")
            assert function in functions(path)
