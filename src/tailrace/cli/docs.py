"""The generator of documentation pages: `python -m tailrace.cli.docs`, in a checkout."""

import sys
from collections.abc import Callable
from pathlib import Path

from tailrace.cli import compatibility, file_map, state_table
from tailrace.config import document
from tailrace.connect.plugin import page as connect_page

_CHECKOUT = Path(__file__).parents[3]
_MATRIX = _CHECKOUT / "tests" / "clients" / "matrix.json"

PAGES: dict[str, Callable[[], str]] = {
    "CONFIGURATION.md": document.render,
    "COMPATIBILITY.md": lambda: compatibility.render(compatibility.read_matrix(_MATRIX)),
    "FILES.md": lambda: file_map.render(_CHECKOUT / "src" / "tailrace"),
    "STATES.md": state_table.render,
    "connectors/connect_configs.md": connect_page.render,
}


def main(folder: Path = _CHECKOUT / "docs") -> int:
    """Write every page and print the names of those that changed."""
    if not _MATRIX.exists():
        print("tailrace: pages can be generated only in a checkout of Tailrace's sources", file=sys.stderr)
        return 1
    for name, render in PAGES.items():
        page = folder / name
        text = render()
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")
            print(f"wrote {page.relative_to(folder.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
