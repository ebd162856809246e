"""Configurations of connectors, translated and loaded as pipeline files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tailrace.connect.plugin.base import Translation
from tailrace.connect.plugin.error import ConfigError
from tailrace.connect.plugin.translation import translate
from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.pipeline.flow import Flow
from tailrace.spark.pipeline.yaml_file import load_flows


def load(translation: Translation, folder: Path) -> tuple[Flow, ...]:
    """Load the documents as a pipeline file does, and check the options of topics."""
    path = folder / "connector.yaml"
    path.write_text(yaml.safe_dump_all(list(translation.documents), sort_keys=False))
    flows = load_flows(path)
    place = FlowPlace("flow", folder, folder, {"bootstrap.servers": "localhost:9092"})
    for flow in flows:
        for source in flow.sources:
            if isinstance(source, Topic):
                source.connect_source(place)
        if isinstance(flow.sink, Topic):
            flow.sink.connect_sink(place)
    return flows


def document(config: Mapping[str, str], folder: Path, **more: Any) -> dict[str, Any]:
    """Return the only document of a configuration, after it was loaded."""
    translation = translate("shop", config, **more)
    assert len(load(translation, folder)) == len(translation.documents) == 1
    return translation.documents[0]


def problems(config: Mapping[str, str], **more: Any) -> dict[str, list[str]]:
    """Return what is wrong with a configuration, by setting."""
    try:
        translate("shop", config, **more)
    except ConfigError as error:
        found: dict[str, list[str]] = {}
        for problem in error.problems:
            found.setdefault(problem.name, []).append(problem.message)
        return found
    return {}
