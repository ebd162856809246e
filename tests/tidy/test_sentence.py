"""Sentences name their actor: none in the source or the manual has a pronoun for an unknown one."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import ROOT, parse, python_files, shown

START = r"(?:^|[.!?:;]\s+|\n\s*\n\s*|\|\s+)(?:[-*>]\s+)?"
NO_ACTOR = r"\b(?:until|reject(?:s|ed)?|refuse[sd]?|those|everything|for|of|from|by|away)\s+"
UNNAMED = re.compile(
    rf"{START}who\b(?!['’]s)|{NO_ACTOR}who\b"
    r"|(?<![.\w-])(?:whoever|nobody|somebody|anybody|everybody|no one|someone|anyone|everyone)\b(?![.]\w)",
    re.IGNORECASE,
)
QUESTION = re.compile(r"\bwho[^.?!]*\?", re.IGNORECASE)


def sentences(text: str) -> Iterator[str]:
    """Yield each place where a sentence does not name its actor; a question may begin with who."""
    text = QUESTION.sub("?", text)
    for found in UNNAMED.finditer(text):
        yield text[found.start() : found.start() + 60].strip().replace("\n", " ")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings and comments of a Python file with their lines; neighbouring comment lines are one text."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    block: list[tokenize.TokenInfo] = []
    with path.open("rb") as file:
        comments = [token for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT]
    for token in comments:
        if block and token.start[0] != block[-1].start[0] + 1:
            yield block[0].start[0], _joined(block)
            block = []
        block.append(token)
    if block:
        yield block[0].start[0], _joined(block)


def _joined(comments: list[tokenize.TokenInfo]) -> str:
    return "\n".join(token.string.lstrip("# ") for token in comments)


def test_no_sentence_of_the_source_hides_its_actor() -> None:
    found = [
        f"{shown(path)}:{line}: {sentence}"
        for path in python_files("src", "bench", "examples")
        for line, text in texts(path)
        if " " in text
        for sentence in sentences(text)
    ]
    assert found == []


def test_no_sentence_of_the_manual_hides_its_actor() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    found = [f"{shown(page)}: {sentence}" for page in pages for sentence in sentences(page.read_text())]
    assert found == []
