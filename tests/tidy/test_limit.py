"""Every bound stands in one place with its reason, and is kept somewhere."""

import ast
import re
from pathlib import Path

import pytest
from tests.tidy.tree import PACKAGE, parse, python_files

LIMITS = [
    PACKAGE / "base" / name
    for name in ("limits.py", "request_limits.py", "schema_limits.py", "security_limits.py", "caller_limits.py")
]


def limits(path: Path) -> dict[str, int]:
    """The name of every bound in a file and its line."""
    return {
        target.id: node.lineno
        for node in parse(path).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def names_in(path: Path) -> set[str]:
    return {node.id for node in ast.walk(parse(path)) if isinstance(node, ast.Name)}


def test_every_bound_is_kept_somewhere() -> None:
    used = set().union(*(names_in(path) for path in python_files("src") if path not in LIMITS))
    natively = " ".join(path.read_text() for path in PACKAGE.rglob("*.pyx"))
    bounds = [name for path in LIMITS for name in limits(path)]
    idle = [name for name in bounds if name not in used and not re.search(rf"\b{name}\b", natively)]
    assert [name for name in idle if name != "MIB"] == []


@pytest.mark.parametrize("path", LIMITS, ids=lambda path: path.name)
def test_every_bound_has_its_reason(path: Path) -> None:
    """A comment stands above each bound, or above the first of those that belong together."""
    lines = path.read_text().splitlines()
    without = []
    for name, number in limits(path).items():
        above = number - 2
        while above >= 0 and re.match(r"[A-Z_]+ =", lines[above]):
            above -= 1
        if name != "MIB" and not lines[above].startswith("#"):
            without.append(name)
    assert without == []
