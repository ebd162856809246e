"""The registry that commands use, and the schemas that they read from files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tailrace.base.variable import REGISTRY_USER_VARIABLE, REGISTRY_VARIABLE

if TYPE_CHECKING:
    from tailrace.schema.language import Reference
    from tailrace.schema.registry import Registry

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_REGISTRY = "http://localhost:8081"
LANGUAGES = ("avro", "json", "protobuf")
_ENDINGS = {".avsc": "avro", ".json": "json", ".proto": "protobuf"}


def registry_options(command: Command) -> Command:
    """Add the options of all commands that connect to a registry, which `connected` reads."""
    url = click.option(
        "--registry",
        envvar=REGISTRY_VARIABLE,
        expose_value=False,
        callback=_remember,
        metavar="URL,…",
        help=f"Schema registries, of which any is used.  [env: {REGISTRY_VARIABLE}; default: {DEFAULT_REGISTRY}]",
    )
    user = click.option(
        "--registry-user",
        envvar=REGISTRY_USER_VARIABLE,
        expose_value=False,
        callback=_remember,
        metavar="NAME:PASSWORD",
        help="User of the registry. Other users of the machine can see command lines: use the variable or "
        f"--registry-config there.  [env: {REGISTRY_USER_VARIABLE}]",
    )
    file = click.option(
        "--registry-config",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        expose_value=False,
        callback=_remember,
        metavar="FILE",
        help="Properties file with configs of the connection, such as ssl.ca.location.",
    )
    return url(user(file(command)))


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.meta[f"{__name__}.{parameter.name}"] = value


@contextmanager
def connected() -> "Iterator[Registry]":
    """Yield a client of the registry that the options of the running command name."""
    from tailrace.config.error import ConfigError
    from tailrace.schema.registry import Registry

    meta = click.get_current_context().meta
    url, user, file = (meta[f"{__name__}.{name}"] for name in ("registry", "registry_user", "registry_config"))
    given = {"url": url, "basic.auth.user.info": user}
    config = {"url": DEFAULT_REGISTRY, **_read_config(file), **{name: text for name, text in given.items() if text}}
    options = {"url": "--registry", "basic.auth.user.info": "--registry-user"}
    try:
        registry = Registry.from_config(config)
    except ConfigError as error:
        place = options[error.name] if given.get(error.name) else f"{file or '--registry-config'}: {error.name}"
        raise click.UsageError(f"{place}: {error}") from None
    with registry:
        yield registry


def _read_config(file: Path | None) -> dict[str, str]:
    from tailrace.config.properties import PropertiesError, read_properties

    if file is None:
        return {}
    try:
        return {entry.name: entry.value for entry in read_properties(file)}
    except PropertiesError as error:
        raise click.ClickException(f"{file}: {error}") from None


def read_schema(path: Path) -> str:
    """Return the text of a schema's file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.ClickException(f"{path}: the file is not UTF-8") from None


def choose_language(path: Path, language: str | None) -> str:
    """Return the language that was given, or the one that the file's name suggests."""
    found = language or _ENDINGS.get(path.suffix.lower())
    if found is None:
        raise click.UsageError(f"{path}: the name does not end with .avsc, .json or .proto; set --type")
    return found


def read_references(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> "tuple[Reference, ...]":
    """Parse the values of a repeatable option NAME=SUBJECT:VERSION; a callback for click."""
    from tailrace.schema.language import Reference

    found = []
    for text in values:
        name, _, place = text.partition("=")
        subject, _, version = place.rpartition(":")
        if not name or not subject or not (version.isascii() and version.isdigit()):
            raise click.BadParameter(f"{text!r} is not NAME=SUBJECT:VERSION")
        found.append(Reference(name, subject, int(version)))
    return tuple(found)
