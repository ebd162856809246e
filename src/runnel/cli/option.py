"""Options that several commands share, and the connection that they ask for."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from runnel.base.event_loop import new_event_loop
from runnel.base.variable import BOOTSTRAP_VARIABLE

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP_SERVER = "localhost:9092"

_NUMBERS = ("metadata.max.age.ms", "request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms")
_NAMES = ("bootstrap.servers", "client.id", "security.protocol", *_NUMBERS)
_SECURITY_PREFIXES = ("ssl.", "sasl.", "security.")
_SAID_BY_OPTIONS = {"group.id": "--group", "isolation.level": "--isolation", "auto.offset.reset": "--from"}
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "": 1}


def broker_options(command: Command) -> Command:
    """The options of every command that talks to a broker."""
    bootstrap = click.option(
        "--bootstrap-server",
        envvar=BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT,…",
        help=f"Brokers to begin with.  [env: {BOOTSTRAP_VARIABLE}; default: {DEFAULT_BOOTSTRAP_SERVER}]",
    )
    config = click.option(
        "--command-config",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Client settings in Kafka's names.",
    )
    return bootstrap(config(command))


def json_option(command: Command) -> Command:
    """The option of every command that prints."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def read_pairs(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """A callback for options that take NAME=VALUE several times."""
    pairs = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
        pairs[name.strip()] = value
    return pairs


def read_duration_s(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """A callback for options that take a duration such as 60s."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 60s or 2m")
    return float(match[1]) * _UNITS_S[match[2]]


def run_with_cluster(
    bootstrap_server: str | None, command_config: Path | None, action: Callable[[Any], Coroutine[Any, Any, T]]
) -> T:
    """Connect to a cluster, run `action` with it, and close it."""
    from runnel.client.cluster import Cluster

    settings = {} if command_config is None else read_command_config(command_config)
    servers = choose_servers(bootstrap_server, settings)
    numbers = {name.replace(".", "_"): int(settings[name]) for name in _NUMBERS if name in settings}

    async def connected() -> T:
        try:
            cluster = Cluster(servers, client_id=settings.get("client.id", "runnel-cli"), **numbers)
        except ValueError as error:
            raise click.UsageError(f"--bootstrap-server: {error}") from None
        async with cluster:
            return await action(cluster)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(connected())


def run_with_consumer(
    bootstrap_server: str | None,
    command_config: Path | None,
    settings: Mapping[str, str],
    action: Callable[[Any], Coroutine[Any, Any, T]],
) -> T:
    """Run `action` with a consumer of these settings, which it closes."""
    from runnel.client.aio_consumer import Consumer

    given = {} if command_config is None else dict(read_command_config(command_config, is_consumer=True))
    servers = choose_servers(bootstrap_server, given)
    given.pop("bootstrap.servers", None)

    async def connected() -> T:
        return await action(Consumer(servers, config={"client.id": "runnel-cli", **given, **settings}))

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(connected())


def choose_servers(bootstrap_server: str | None, settings: Mapping[str, str]) -> str:
    """The brokers that the command line names, or the file, or this machine; an empty name is a mistake."""
    if bootstrap_server is None:
        return settings.get("bootstrap.servers", DEFAULT_BOOTSTRAP_SERVER)
    if not bootstrap_server.strip():
        raise click.UsageError("--bootstrap-server: no address is given; write HOST:PORT")
    return bootstrap_server


def read_command_config(path: Path, *, is_consumer: bool = False) -> Mapping[str, str]:
    """Client settings from a properties file; what is unknown or not supported is refused by name.

    Only a consumer takes the settings of consumers.
    """
    from runnel.config.properties import PropertiesError, read_properties

    try:
        properties = read_properties(path)
    except PropertiesError as error:
        raise click.ClickException(f"{path}: {error}") from None
    for entry in properties:
        place = f"{path}:{entry.line}: {entry.name}"
        if entry.name == "security.protocol" and entry.value.upper() == "PLAINTEXT":
            continue
        if entry.name.startswith(_SECURITY_PREFIXES):
            raise click.ClickException(f"{place}: TLS and SASL are not supported yet, only PLAINTEXT is")
        if refusal := _refusal(entry.name, is_consumer=is_consumer):
            raise click.ClickException(f"{place}: {refusal}")
        if entry.name in _NUMBERS and not (entry.value.isascii() and entry.value.isdigit()):
            raise click.ClickException(f"{place}: {entry.value!r} is not a number of milliseconds")
    return {entry.name: entry.value for entry in properties}


def _refusal(name: str, *, is_consumer: bool) -> str | None:
    """Why a command cannot take this setting, if it cannot."""
    if name in _NAMES:
        return None
    from runnel.client.consumer_setting import ConsumerSettings
    from runnel.config.configuration import suggestion

    if name not in ConsumerSettings.options:
        known = (*_NAMES, *ConsumerSettings.options) if is_consumer else _NAMES
        return f"no client setting has this name{suggestion(name, known)}"
    if not is_consumer:
        return "this is a setting of consumers, for runnel consume --group"
    return f"say it with {_SAID_BY_OPTIONS[name]}" if name in _SAID_BY_OPTIONS else None
