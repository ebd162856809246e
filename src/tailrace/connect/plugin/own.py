"""Tailrace's own plugins: any connector of pipelines as a source (to a topic) or a sink (from topics).

The settings are the keys of a YAML pipeline file: `source.url` is the key `url` of `source`.

    {"connector.class": "tailrace.Source", "source.connector": "redis", "source.url": "redis://localhost",
     "source.stream": "clicks", "sql": "SELECT id, fields FROM source", "topic": "clicks"}
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tailrace.connect.plugin import connector_setting
from tailrace.connect.plugin.base import Definition, Group, Importance, Kind, Plugin, Translation
from tailrace.connect.plugin.check import not_empty
from tailrace.connect.plugin.document import (
    check_endpoint,
    consumer_arguments,
    finish,
    flow_name,
    producer_options,
    read_errors,
    read_every,
    read_topics,
)
from tailrace.connect.plugin.setting import Settings
from tailrace.spark.connector.known import CONNECTORS

TOPIC = "topic"
SOURCE_PREFIX, SINK_PREFIX, EXPECT_PREFIX = "source.", "sink.", "expect."
CONNECTOR = "connector"
ON_FAIL = ".on_fail"
_OPTIONS = "options"
_FLOW_KEYS = ("sql", "mode", "every", "delivery", "state")
_NO_CONVERTER = "set the format of values with {0}value, {0}schema and {0}registry"


def _translate_source(settings: Settings) -> Translation:
    topic = settings.text(TOPIC)
    sink = _read_arguments(settings, SINK_PREFIX, "topic", {"name"})
    if options := producer_options(settings):
        sink[_OPTIONS] = {**sink.get(_OPTIONS, {}), **options}
    source = _read_endpoint(settings, SOURCE_PREFIX, is_source=True)
    document = {
        "name": flow_name(settings.name),
        "source": source,
        "sink": {"connector": "topic", "name": topic, **sink},
        **read_every(settings),
        **_read_flow(settings),
    }
    _refuse_converters(settings, SINK_PREFIX)
    return finish(settings, Kind.SOURCE, [document], [topic])


def _translate_sink(settings: Settings) -> Translation:
    topics = read_topics(settings)
    source = _read_arguments(settings, SOURCE_PREFIX, "topic", {"name"})
    consumer = consumer_arguments(settings)
    options = {**source.pop(_OPTIONS, {}), **consumer.pop(_OPTIONS, {})}
    source |= consumer | ({_OPTIONS: options} if options else {})
    document = {
        "name": flow_name(settings.name),
        "source": {"connector": "topic", "name": topics, **source},
        "sink": _read_endpoint(settings, SINK_PREFIX, is_source=False),
        **_read_flow(settings),
    }
    _refuse_converters(settings, SOURCE_PREFIX)
    return finish(settings, Kind.SINK, [document], topics)


def _read_flow(settings: Settings) -> dict[str, Any]:
    """Return the keys of the flow besides its source and its sink."""
    flow: dict[str, Any] = {name: settings.text(name) for name in _FLOW_KEYS if settings.is_given(name)}
    rules = settings.below(EXPECT_PREFIX)
    expect: dict[str, Any] = {}
    for name, text in rules.items():
        if not name.endswith(ON_FAIL):
            on_fail = rules.get(name + ON_FAIL)
            expect[name] = text if on_fail is None else {"rule": text, "on_fail": on_fail.strip()}
        elif name.removesuffix(ON_FAIL) not in rules:
            settings.refuse(EXPECT_PREFIX + name, f"there is no rule {EXPECT_PREFIX}{name.removesuffix(ON_FAIL)}")
    return {**flow, **read_errors(settings), **({"expect": expect} if expect else {})}


def _read_endpoint(settings: Settings, prefix: str, *, is_source: bool) -> dict[str, Any]:
    """Return the source or the sink, checked as far as it can be without reaching anything."""
    name = settings.text(prefix + CONNECTOR)
    known = [other for other in CONNECTORS if other != "topic"]
    if name not in known:
        if name:
            settings.refuse(prefix + CONNECTOR, f"there is no connector {name}; there are {', '.join(known)}")
        settings.below(prefix)
        return {}
    endpoint = {"connector": name, **_read_arguments(settings, prefix, name, set())}
    if (reason := check_endpoint(endpoint, is_source=is_source)) is not None:
        settings.refuse(prefix + CONNECTOR, reason)
    return endpoint


def _read_arguments(settings: Settings, prefix: str, connector: str, excluded: set[str]) -> dict[str, Any]:
    """Return the arguments of a connector, each of its type; adds problems."""
    given = settings.below(prefix)
    given.pop(CONNECTOR, None)
    parameters = {
        name: each
        for name, each in inspect.signature(CONNECTORS[connector]).parameters.items()
        if each.kind is not each.VAR_POSITIONAL and name not in excluded
    }
    arguments: dict[str, Any] = {}
    for name, text in given.items():
        key, _, rest = name.partition(".")
        if key not in parameters or (rest and not _takes(parameters[key], Mapping)):
            settings.refuse(
                prefix + name, f"connector {connector} has no {key}; it has {', '.join(parameters) or 'no arguments'}"
            )
        elif rest:
            arguments.setdefault(key, {})[rest] = text
        else:
            _set_argument(settings, prefix + name, arguments, parameters[key], text)
    return arguments


def _set_argument(
    settings: Settings, setting: str, arguments: dict[str, Any], parameter: inspect.Parameter, text: str
) -> None:
    text = text.strip()
    if _takes(parameter, bool):
        if text.lower() not in ("true", "false"):
            settings.refuse(setting, "it is true or false")
        arguments[parameter.name] = text.lower() == "true"
    elif (_takes(parameter, int) or _takes(parameter, float)) and not _takes(parameter, str):
        convert: Callable[[str], Any] = int if _takes(parameter, int) else float
        try:
            arguments[parameter.name] = convert(text)
        except ValueError:
            settings.refuse(setting, "it is a number")
    elif _takes_list(parameter) and "," in text:
        arguments[parameter.name] = [item.strip() for item in text.split(",")]
    else:
        arguments[parameter.name] = text


def _annotation(parameter: inspect.Parameter) -> str:
    return str(parameter.annotation if not isinstance(parameter.annotation, type) else parameter.annotation.__name__)


def _takes(parameter: inspect.Parameter, kind: type) -> bool:
    """Return whether a parameter is declared with a type, alone or among others."""
    return any(kind.__name__ in part.split("[")[0] for part in _annotation(parameter).split(" | "))


def _takes_list(parameter: inspect.Parameter) -> bool:
    return "Sequence[" in _annotation(parameter)


def _refuse_converters(settings: Settings, prefix: str) -> None:
    for name in (connector_setting.KEY_CONVERTER, connector_setting.VALUE_CONVERTER):
        for found in [name] * settings.is_given(name) + [f"{name}.{key}" for key in settings.below(f"{name}.")]:
            settings.refuse(found, _NO_CONVERTER.format(prefix))


def _definitions(group: Group, prefix: str) -> tuple[Definition, ...]:
    known = tuple(name for name in CONNECTORS if name != "topic")
    return (
        group.define(
            prefix + CONNECTOR,
            importance=Importance.HIGH,
            documentation=f"The connector; its arguments are the settings {prefix}NAME.",
            required=True,
            check=not_empty,
            recommended=known,
        ),
        group.define("sql", documentation="A query over the rows, which it calls source."),
        group.define("mode", documentation="The output mode: append, update or complete."),
        group.define("every", documentation="The interval between batches, such as 5 seconds."),
        group.define("delivery", documentation="exactly-once, at-least-once or at-most-once."),
        group.define("state", documentation="Where windows and counts are kept: memory or disk."),
    )


_SOURCE_GROUP, _SINK_GROUP = Group("Tailrace"), Group("Tailrace")

SOURCE = Plugin(
    "tailrace.Source",
    Kind.SOURCE,
    (
        *_definitions(_SOURCE_GROUP, SOURCE_PREFIX),
        _SOURCE_GROUP.define(
            TOPIC,
            importance=Importance.HIGH,
            documentation="The topic to write.",
            required=True,
            check=not_empty,
        ),
        *connector_setting.DEAD_LETTERS,
    ),
    _translate_source,
)
SINK = Plugin("tailrace.Sink", Kind.SINK, _definitions(_SINK_GROUP, SINK_PREFIX), _translate_sink)
