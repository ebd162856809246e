"""Values that stand for "none", "unknown" or a bound have one name, and the name is defined once."""

import ast
import re
from collections import defaultdict

from tests.tidy.tree import parse, python_files, shown

SENTINEL = re.compile(r"_?(NO_[A-Z_]+|U?INT\d+_(MIN|MAX)|ACKS_[A-Z]+)")


def test_a_sentinel_is_defined_once() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in python_files("src"):
        for node in parse(path).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_number(node.value):
                name = node.targets[0].id
                if SENTINEL.fullmatch(name):
                    homes[name.lstrip("_")].append(shown(path))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def _is_number(value: ast.expr) -> bool:
    arithmetic = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)
    nodes = list(ast.walk(value))
    return all(isinstance(node, arithmetic) for node in nodes) and not any(
        isinstance(node, ast.Constant) and not isinstance(node.value, int) for node in nodes
    )
