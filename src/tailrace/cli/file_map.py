"""The file map of the sources: each module with the first sentence of its docstring."""

import ast
from pathlib import Path

# Lowest layer first, so that the page can be read from the bottom of the system up.
_LAYERS = (
    "base",
    "protocol",
    "records",
    "config",
    "storage",
    "machines",
    "security",
    "coordination",
    "client",
    "schema",
    "web",
    "runtime",
    "server",
    "spark",
    "registry",
    "connect",
    "console",
    "testing",
    "cli",
    "sim",
)


def render(package: Path) -> str:
    """Return the page for the package in this folder."""
    lines = [
        "<!-- Generated from the docstrings of the modules. Do not edit: run make docs -->",
        "",
        "# File map",
        "",
        "Each layer imports only from those above it on this page. [DESIGN.md](DESIGN.md) says how they work together.",
    ]
    for layer in _LAYERS:
        if modules := _modules(package / layer):
            lines += ["", f"## {layer}", "", "| file | what it holds |", "| --- | --- |", *modules]
    return "\n".join(lines) + "\n"


def _modules(folder: Path) -> list[str]:
    return [
        f"| `{path.relative_to(folder.parent)}` | {summary} |"
        for path in sorted(folder.rglob("*.py"))
        if (summary := _summary(path))
    ]


def _summary(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(docstring.split("\n\n", 1)[0].split())
    return paragraph.replace("|", "\\|")
