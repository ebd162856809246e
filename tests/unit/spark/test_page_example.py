"""The examples of the pages about pipelines and connectors declare flows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tailrace.spark.connector.known import CONNECTORS
from tailrace.spark.pipeline.load import load_pipeline

pytest.importorskip("pyspark", reason="the examples import pyspark")

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = sorted([DOCS / "PIPELINES.md", *(DOCS / "connectors").glob("*.md")])
EXAMPLES = [
    pytest.param(language, text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, (language, text) in enumerate(re.findall(r"```(python|yaml)\n(.*?)```", page.read_text(), re.DOTALL))
    if "import flow" in text or ", flow" in text or "sink: {" in text or "sink:\n" in text
]


@pytest.mark.parametrize(("language", "text"), EXAMPLES)
def test_an_example_can_be_loaded(language: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_REGISTRY_URL", "http://localhost:8081")
    file = tmp_path / f"example.{'py' if language == 'python' else 'yaml'}"
    file.write_text(text)
    assert load_pipeline(file).flows


@pytest.mark.parametrize("name", CONNECTORS)
def test_a_connector_has_a_page_with_an_example_in_python_and_in_yaml(name: str) -> None:
    page = DOCS / ("PIPELINES.md" if name == "topic" else f"connectors/{name}.md")
    languages = {
        language
        for language, text in re.findall(r"```(python|yaml)\n(.*?)```", page.read_text(), re.DOTALL)
        if re.search(rf"\b{name}\b", text)
    }
    assert languages == {"python", "yaml"}
