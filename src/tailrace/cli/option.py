"""Options that several commands share, and the connections that they need."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from tailrace.base.event_loop import new_event_loop
from tailrace.base.variable import BOOTSTRAP_VARIABLE

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP_SERVER = "localhost:9092"

_NUMBERS = ("metadata.max.age.ms", "request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms")
_SAID_BY_OPTIONS = {"group.id": "--group", "isolation.level": "--isolation", "auto.offset.reset": "--from"}
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "": 1}


def broker_options(command: Command) -> Command:
    """Add the options of all commands that connect to a broker."""
    bootstrap = click.option(
        "--bootstrap-server",
        envvar=BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT,…",
        help=f"Brokers to connect to first.  [env: {BOOTSTRAP_VARIABLE}; default: {DEFAULT_BOOTSTRAP_SERVER}]",
    )
    config = click.option(
        "--command-config",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Properties file with client configs in Kafka's names, such as those of TLS and SASL.",
    )
    return bootstrap(config(command))


def json_option(command: Command) -> Command:
    """Add the option --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def read_pairs(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Parse the values of a repeatable option NAME=VALUE; a callback for click."""
    pairs = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
        pairs[name.strip()] = value
    return pairs


def read_duration_s(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """Parse a duration such as 60s; a callback for click."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 60s or 2m")
    return float(match[1]) * _UNITS_S[match[2]]


def run_with_cluster(
    bootstrap_server: str | None, command_config: Path | None, action: Callable[[Any], Coroutine[Any, Any, T]]
) -> T:
    """Run `action` with a connected cluster, and close the cluster."""
    from tailrace.client.address import parse_addresses
    from tailrace.client.produce.core import open_cluster
    from tailrace.client.setting import ClientSettings

    given = {} if command_config is None else dict(read_command_config(command_config))
    servers = choose_servers(bootstrap_server, given)
    given.pop("bootstrap.servers", None)
    try:
        parse_addresses(servers)
    except ValueError as error:
        raise click.UsageError(f"--bootstrap-server: {error}") from None
    settings = ClientSettings(servers, {"client.id": "tailrace-cli", **given}, {})

    async def connected() -> T:
        async with open_cluster(settings) as cluster:
            return await action(cluster)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(connected())


def run_with_consumer(
    bootstrap_server: str | None,
    command_config: Path | None,
    settings: Mapping[str, str],
    action: Callable[[Any], Coroutine[Any, Any, T]],
) -> T:
    """Run `action` with a consumer, which the action closes."""
    from tailrace.client.fetch.aio import Consumer

    given = {} if command_config is None else dict(read_command_config(command_config, is_consumer=True))
    servers = choose_servers(bootstrap_server, given)
    given.pop("bootstrap.servers", None)

    async def connected() -> T:
        return await action(Consumer(servers, config={"client.id": "tailrace-cli", **given, **settings}))

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(connected())


def choose_servers(bootstrap_server: str | None, settings: Mapping[str, str]) -> str:
    """Return the brokers from the command line, else from the file, else the default; an empty name is an error."""
    if bootstrap_server is None:
        return settings.get("bootstrap.servers", DEFAULT_BOOTSTRAP_SERVER)
    if not bootstrap_server.strip():
        raise click.UsageError("--bootstrap-server: the address is empty; write HOST:PORT")
    return bootstrap_server


def read_command_config(path: Path, *, is_consumer: bool = False, prefix: str = "") -> Mapping[str, str]:
    """Return the client configs in a properties file; raises for unknown and unsupported ones.

    Only a consumer takes the configs of consumers. Names may begin with `prefix`.
    """
    from tailrace.client.setting import ClientSettings
    from tailrace.config.error import ConfigError, InvalidConfigError
    from tailrace.config.properties import PropertiesError, read_properties

    try:
        properties = read_properties(path)
    except PropertiesError as error:
        raise click.ClickException(f"{path}: {error}") from None
    properties = [replace(entry, name=entry.name.removeprefix(prefix)) for entry in properties]
    for entry in properties:
        place = f"{path}:{entry.line}: {entry.name}"
        if refusal := _refusal(entry.name, is_consumer=is_consumer):
            raise click.ClickException(f"{place}: {refusal}")
        if entry.name in _NUMBERS and not (entry.value.isascii() and entry.value.isdigit()):
            raise click.ClickException(f"{place}: {entry.value!r} is not a number of milliseconds")
    found = {entry.name: entry.value for entry in properties}
    try:
        ClientSettings(None, {name: value for name, value in found.items() if name in ClientSettings.options}, {})
    except ConfigError as error:
        lines = {entry.name: entry.line for entry in properties}
        problems = error.problems if isinstance(error, InvalidConfigError) else [error]
        told = [f"{path}:{lines[each.name]}: {each}" if each.name in lines else f"{path}: {each}" for each in problems]
        raise click.ClickException("; ".join(told)) from None
    return found


def _refusal(name: str, *, is_consumer: bool) -> str | None:
    """Return why a command cannot take this config; None if it can."""
    from tailrace.client.fetch.setting import ConsumerSettings
    from tailrace.client.security.setting import IGNORED
    from tailrace.client.setting import ClientSettings
    from tailrace.config.configuration import suggestion

    if name in ClientSettings.options or name in IGNORED:
        return None
    if name not in ConsumerSettings.options:
        known = ConsumerSettings.options if is_consumer else ClientSettings.options
        return f"there is no client config of this name{suggestion(name, known)}"
    if not is_consumer:
        return "this config applies only to consumers, in tailrace consume --group"
    return f"set it with the option {_SAID_BY_OPTIONS[name]}" if name in _SAID_BY_OPTIONS else None
