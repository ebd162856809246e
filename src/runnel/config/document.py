"""Writes docs/CONFIGURATION.md from the declarations: `python -m runnel.config.document docs/CONFIGURATION.md`."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from runnel.config.broker import BrokerConfig, broker_options
from runnel.config.group import GroupConfig
from runnel.config.load import RESERVED_VARIABLES, environment_name
from runnel.config.option import Option, OptionType, render_value
from runnel.config.refusal import BROKER_REFUSAL_PREFIXES, BROKER_REFUSALS, TOPIC_REFUSALS
from runnel.config.topic import TopicConfig
from runnel.config.unit import DAY_MS, GIB, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS

_INTRODUCTION = """\
<!-- Generated from the declarations in src/runnel/config. Do not edit: run
     python -m runnel.config.document docs/CONFIGURATION.md -->

# Configuration

Options have Kafka's names, types and defaults; what differs says so. A broker takes its options
from, strongest first:

1. `runnel start --set NAME=VALUE`, as often as needed;
2. the environment: `{example}` for `{example_name}`, that is `RUNNEL_` and the name in capitals with
   underscores for dots (options that begin with `runnel.` do not repeat that word);
3. the file given by `--config`, a Java properties file such as Kafka's `server.properties`;
4. the default.

An option that Runnel does not know, or that Kafka has and Runnel does not support, is refused by
name, in all three places, together with everything else that is wrong. An environment variable that
begins with `RUNNEL_` and is not an option is ignored, and the broker logs its name: Kubernetes sets such
variables. These belong to the command line, the build and the tests: {reserved}.

Some options can change while the broker runs, through AlterConfigs and IncrementalAlterConfigs:
*cluster-wide* ones for all brokers or for one, *per-broker* ones only for one. A value set for one
broker goes before one set for all, and both go before the sources above.
"""

_INERT = """\
Kafka files commonly hold these options. Runnel accepts them, checks their values, and says once in
its log at start that they have no effect.
"""

_REFUSED = """\
A broker does not start with these: starting without what they ask for would be something else than
the file says.
"""


def render() -> str:
    """Return the whole page."""
    parts = [
        _introduction(),
        "## Broker options\n",
        _option_table(BrokerConfig.options.values(), "changes"),
        "## Topic options\n",
        "A topic that does not set an option takes the broker's value; where several broker options are\n"
        "named, the first that is set counts.\n",
        _option_table(TopicConfig.options.values(), "broker option"),
        "Kafka has these topic options too; setting one is refused:\n",
        _table(("option", "reason"), _refusals(TOPIC_REFUSALS)),
        "## Group options\n",
        "A group of the new protocol that does not set an option takes the broker's value.\n",
        _option_table(GroupConfig.options.values(), "broker option"),
        "## Broker options without effect\n",
        _INERT,
        _inert_table(),
        "## Broker options that are refused\n",
        _REFUSED,
        _table(("option", "reason"), [*_refusals(BROKER_REFUSALS), *_refusals(BROKER_REFUSAL_PREFIXES, "*")]),
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
    """Return a size or a time in the largest unit that divides it, or nothing where the number is plain enough."""
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
