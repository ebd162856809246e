"""The commands on the pages of the manual exist, with their options."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tailrace.cli.main import tailrace

CHECKOUT = Path(__file__).parents[3]
PAGES = [
    *(CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((CHECKOUT / "docs").rglob("*.md")),
]
CODE = re.compile(r"```.*?```|`[^`]+`|^    .*$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?:^|[`|;&(]|\$ )[ \t]*tailrace[ \n]+([a-z][^`|;&#)\n]*)", re.MULTILINE)


def calls(page: Path) -> Iterator[list[str]]:
    """Yield the words of each call after `tailrace`."""
    for code in CODE.findall(page.read_text(encoding="utf-8").replace("\\\n", " ")):
        for found in CALL.finditer(code):
            yield found[1].split()


def problem(words: list[str]) -> str:
    """Return what is wrong with a call, or an empty text."""
    command: click.Command = tailrace
    known: set[str] = set()
    for word in words:
        if isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*", word):
            context = click.Context(command)
            if word not in command.list_commands(context):
                return f"no command {word}"
            found = command.get_command(context, word)
            assert found is not None
            command = found
            known |= {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        elif word.startswith("--") and word.strip(",.=").split("=")[0] not in {*known, "--help", "--version"}:
            return f"no option {word}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_the_commands_of_a_page_exist(page: Path) -> None:
    """The page about security sent its readers to `tailrace config`, which there is not."""
    found = {f"tailrace {' '.join(words)}: {wrong}" for words in calls(page) if (wrong := problem(words))}
    assert found == set()
