"""The generated pages are what the code says now."""

import json
from pathlib import Path

import pytest

from tailrace.cli import docs
from tailrace.cli.compatibility import render
from tailrace.server.handlers import APIS

CHECKOUT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", docs.PAGES)
def test_a_page_is_fresh(name: str) -> None:
    page = CHECKOUT / "docs" / name
    assert page.read_text(encoding="utf-8") == docs.PAGES[name](), "run: make docs"


def test_pages_are_written_where_they_are_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    assert docs.main(folder) == 0
    assert capsys.readouterr().out == "".join(f"wrote docs/{name}\n" for name in docs.PAGES)
    assert docs.main(folder) == 0
    assert capsys.readouterr().out == ""


def test_every_package_is_in_the_file_map() -> None:
    """The schema codecs, the registry and the Connect service were missing from the page."""
    page = docs.PAGES["FILES.md"]()
    packages = {path.parent.name for path in (CHECKOUT / "src" / "tailrace").glob("*/__init__.py")}
    assert {package for package in packages if f"\n## {package}\n" not in page} == set()


def test_every_api_and_client_is_on_the_page() -> None:
    matrix = json.loads((CHECKOUT / "tests" / "clients" / "matrix.json").read_text())
    page = render(matrix)
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    served = {int(row[1]) for row in rows if len(row) == 5 and row[1].isdigit()}
    assert served == set(APIS)
    for client in matrix["clients"]:
        assert f"| {client['client']} |" in page


def test_what_a_client_does_not_do_is_left_out() -> None:
    client = {"client": "c", "language": "l", "version": "1", "covers": ["a", "c"], "notes": ["Odd."]}
    page = render({"steps": {"a": "one", "b": "two", "c": "three"}, "clients": [client]})
    assert "| c | l | 1 | 1, 3 | Odd. |" in page
