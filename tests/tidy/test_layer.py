"""Lower layers never import higher ones, and what decides knows no clock, no disk and no event loop."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from tests.tidy.tree import PACKAGE, imported, parse, python_files, shown

LAYERS = (
    ("base",),
    ("protocol",),
    ("records", "config"),
    ("storage", "machines", "security"),
    ("coordination", "client"),
    ("schema", "web"),
    ("runtime",),
    ("server",),
    ("spark", "registry"),
    ("connect", "console"),
    ("testing", "cli"),
    ("sim",),
)
RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}

FOR_CLIENTS = {"base", "protocol", "records", "config", "security"}
"""All that the client may use of Tailrace: it talks to any broker, and needs none here."""

CLIENT_PROGRAMS = {"spark", "registry", "connect", "console"}
BROKER = {"server", "runtime"}
"""Programs beside the broker reach it over the wire, so that they work with any broker and can run anywhere."""

WAITING = {"asyncio", "concurrent", "select", "selectors", "socket", "subprocess", "time"}
DISK_AND_DICE = {"os", "pathlib", "random", "secrets", "shutil", "sqlite3", "tempfile", "threading"}
FORBIDDEN = {
    "machines": WAITING | DISK_AND_DICE,
    "protocol": WAITING | DISK_AND_DICE,
    "records": WAITING | DISK_AND_DICE - {"os"},  # an environment variable chooses the twin in pure Python
    "config": WAITING | DISK_AND_DICE - {"os", "pathlib"},  # it reads files of properties
    "security": WAITING | DISK_AND_DICE - {"os", "pathlib", "tempfile"},  # it reads stores of keys and certificates
    "storage": WAITING,  # the disk comes as an argument, and only `fs` calls the operating system
}
"""Modules that a layer does not need, because it decides and others wait."""

FILES = python_files("src")


def package_of(path: Path) -> str | None:
    """The layer that a file belongs to; None for the few at the top."""
    if not path.is_relative_to(PACKAGE):
        return None
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


def packages_used(path: Path) -> set[str]:
    parts = [name.split(".") for name in imported(path)]
    return {name[1] for name in parts if name[0] == "tailrace" and len(name) > 1 and name[1] in RANKS}


def test_every_package_has_its_layer() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert packages <= RANKS.keys()


@pytest.mark.parametrize("package", RANKS)
def test_a_layer_uses_only_those_below_it(package: str) -> None:
    below = {name for name, rank in RANKS.items() if rank < RANKS[package]}
    allowed = {package} | (FOR_CLIENTS if package == "client" else below)
    if package in CLIENT_PROGRAMS:
        allowed -= BROKER
    found = [
        f"{shown(path)} imports {used}"
        for path in FILES
        if package_of(path) == package
        for used in sorted(packages_used(path) - allowed)
    ]
    assert found == []


def test_nothing_imports_what_is_for_tests() -> None:
    found = [
        shown(path)
        for path in FILES
        if package_of(path) not in ("testing", "sim")
        and any(name.startswith(("tailrace.testing", "tailrace.sim", "tests", "bench")) for name in imported(path))
    ]
    assert found == []


@pytest.mark.parametrize("package", FORBIDDEN)
def test_what_decides_is_pure(package: str) -> None:
    found = [
        f"{shown(path)} imports {name}"
        for path in FILES
        if package_of(path) == package
        for name in imported(path)
        if name.split(".")[0] in FORBIDDEN[package]
    ]
    assert found == []


def test_only_one_file_of_storage_calls_the_operating_system() -> None:
    harmless = {"path", "strerror"}
    calls = {
        f"{shown(path)}: os.{node.attr}"
        for path in FILES
        if package_of(path) == "storage" and path.name != "fs.py"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
        if node.attr not in harmless
    }
    assert calls == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {_module(path): set(_imported_at_start(path)) for path in FILES}
    TopologicalSorter({name: used & graph.keys() - {name} for name, used in graph.items()}).prepare()


def _module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported_at_start(path: Path) -> list[str]:
    """Modules that importing a file imports: not those for type checkers, nor those of functions."""
    names = []
    for node in parse(path).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names
