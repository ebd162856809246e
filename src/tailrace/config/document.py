"""The generator of the configuration page: `python -m tailrace.config.document docs/CONFIGURATION.md`."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tailrace.config.broker import BrokerConfig, broker_options
from tailrace.config.group import GroupConfig
from tailrace.config.load import RESERVED_VARIABLES, environment_name
from tailrace.config.option import Option, OptionType, render_value
from tailrace.config.refusal import BROKER_REFUSAL_PREFIXES, BROKER_REFUSALS, TOPIC_REFUSALS
from tailrace.config.topic import TopicConfig
from tailrace.config.unit import DAY_MS, GIB, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS

_INTRODUCTION = """\
<!-- Generated from the declarations in src/tailrace/config. Do not edit: run
     make docs -->

# Configuration

Configs have Kafka's names, types and defaults; the descriptions name the differences. A broker takes
its configs from these sources, the strongest first:

1. `tailrace start --set NAME=VALUE`, as often as needed;
2. the environment: `{example}` for `{example_name}`, that is `TAILRACE_` and the name in capitals with
   underscores for dots (configs that begin with `tailrace.` do not repeat that word);
3. the file given by `--config`, a Java properties file such as Kafka's `server.properties`;
4. the default.

An unknown config in `--set` or in the file is an error, and so is a Kafka config that Tailrace does not support,
in any of the three places. The broker reports all errors together. It ignores an environment variable that begins
with `TAILRACE_` and is not a config, and logs its name: Kubernetes sets such variables.
The command line, the build and the tests use these variables: {reserved}.

Some configs can change while the broker runs, through AlterConfigs and IncrementalAlterConfigs:
*cluster-wide* ones for all brokers or for one, *per-broker* ones only for one. A value set for one
broker goes before one set for all, and both go before the sources above.
"""

_INERT = """\
Configuration files of Kafka often contain these configs. Tailrace accepts them, checks their values, and
logs at start that they have no effect.
"""

_REFUSED = """\
A broker does not start with these configs, because it would not do what the file asks for.
"""


def render() -> str:
    """Return the whole page."""
    parts = [
        _introduction(),
        "## Broker configs\n",
        _option_table(BrokerConfig.options.values(), "changes"),
        "## Topic configs\n",
        "A topic that does not set a config uses the broker's value; if several broker configs are\n"
        "named, the first that is set is used.\n",
        _option_table(TopicConfig.options.values(), "broker config"),
        "Kafka has these topic configs too; Tailrace rejects them:\n",
        _table(("config", "reason"), _refusals(TOPIC_REFUSALS)),
        "## Group configs\n",
        "A group of the consumer protocol that does not set a config uses the broker's value.\n",
        _option_table(GroupConfig.options.values(), "broker config"),
        "## Broker configs without effect\n",
        _INERT,
        _inert_table(),
        "## Broker configs that are rejected\n",
        _REFUSED,
        _table(("config", "reason"), [*_refusals(BROKER_REFUSALS), *_refusals(BROKER_REFUSAL_PREFIXES, "*")]),
    ]
    return "\n".join(parts)


def main(arguments: list[str]) -> None:
    """Write the page to the path given as the only argument."""
    Path(arguments[0]).write_text(render(), encoding="utf-8")


def _introduction() -> str:
    example = "log.retention.ms"
    reserved = ", ".join(f"`{variable}`" for variable in sorted(RESERVED_VARIABLES))
    return _INTRODUCTION.format(example=environment_name(example), example_name=example, reserved=reserved)


def _option_table(options: Iterable[Option[Any]], last_heading: str) -> str:
    rows = [
        (
            f"`{option.name}`",
            option.doc,
            option.value_type.name.lower(),
            _default(option),
            "" if option.check is None else option.check.accepts,
            option.importance.value,
            ", ".join(f"`{synonym.name}`" for synonym in option.broker_synonyms) or option.update_mode.value,
        )
        for option in options
    ]
    return _table(("option", "meaning", "type", "default", "accepts", "importance", last_heading), rows)


def _inert_table() -> str:
    rows = [
        (f"`{option.name}`", option.value_type.name.lower(), option.inert)
        for option in broker_options().values()
        if option.inert is not None
    ]
    return _table(("option", "type", "why it has no effect"), rows)


def _refusals(reasons: Mapping[str, str], ending: str = "") -> list[tuple[str, str]]:
    return [(f"`{name}{ending}`", reason) for name, reason in sorted(reasons.items())]


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, tuple("---" for _ in headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _default(option: Option[Any]) -> str:
    text = render_value(option.default)
    if not text:
        return "not set" if text is None else "empty"
    readable = _readable(option)
    return f"`{text}`" + (f" ({readable})" if readable else "")


def _readable(option: Option[Any]) -> str:
    """Return a size or time in the largest unit that divides it, or nothing if no unit does."""
    if option.value_type not in (OptionType.INT, OptionType.LONG) or option.default is None:
        return ""
    units: tuple[tuple[int, str], ...] = ()
    if option.name.endswith(".ms"):
        units = ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s"))
    elif option.name.endswith(".bytes"):
        units = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
    for size, unit in units:
        if option.default > 0 and option.default % size == 0:
            return f"{option.default // size} {unit}"
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
