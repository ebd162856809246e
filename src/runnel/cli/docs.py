"""Writes the generated pages again: `python -m runnel.cli.docs`, from a checkout."""

import sys
from collections.abc import Callable
from pathlib import Path

from runnel.cli import compatibility, file_map
from runnel.config import document

_CHECKOUT = Path(__file__).parents[3]
_MATRIX = _CHECKOUT / "tests" / "clients" / "matrix.json"

PAGES: dict[str, Callable[[], str]] = {
    "CONFIGURATION.md": document.render,
    "COMPATIBILITY.md": lambda: compatibility.render(compatibility.read_matrix(_MATRIX)),
    "FILES.md": lambda: file_map.render(_CHECKOUT / "src" / "runnel"),
}


def main(folder: Path = _CHECKOUT / "docs") -> int:
    """Write every page and say which of them changed."""
    if not _MATRIX.exists():
        print("runnel: the pages are made from a checkout of Runnel's sources, and this is none", file=sys.stderr)
        return 1
    for name, render in PAGES.items():
        page = folder / name
        text = render()
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
            print(f"wrote {page.relative_to(folder.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
