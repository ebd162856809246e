"""Pages of results whose sections are written by several benches."""

from __future__ import annotations

import re
from pathlib import Path


def write_section(page: Path, heading: str, body: str) -> None:
    """Replace what stands under a heading of the second level, up to the next one; add the heading if it is missing."""
    text = page.read_text()
    section = f"## {heading}\n\n{body.strip()}\n"
    found = re.search(rf"^## {re.escape(heading)}\n(?:(?!^## ).*\n?)*", text, re.MULTILINE)
    if found is None:
        page.write_text(f"{text.rstrip()}\n\n{section}")
        return
    rest = text[found.end() :]
    page.write_text(text[: found.start()] + section + (f"\n{rest}" if rest else ""))
