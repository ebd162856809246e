"""The page of the plugins."""

import json
import re
from pathlib import Path

from tests.unit.connect.plugin.loading import document

from tailrace.connect.plugin.connector_setting import all_definitions
from tailrace.connect.plugin.known import PLUGINS
from tailrace.connect.plugin.page import render


def test_every_setting_of_every_plugin_is_on_the_page() -> None:
    page = render()
    for plugin in PLUGINS:
        assert f"## {plugin.class_name}\n" in page
        assert all(f"| `{definition.name}` |" in page for definition in all_definitions(plugin))


def test_the_example_is_a_valid_configuration(tmp_path: Path) -> None:
    examples = re.findall(r"```json\n(.*?)```", render(), re.DOTALL)
    assert [document(json.loads(example), tmp_path)["sink"]["connector"] for example in examples] == ["redis"]
