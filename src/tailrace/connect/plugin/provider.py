"""Config providers: values of settings that stand in files or in the environment.

The references are those of Kafka's FileConfigProvider (`${file:PATH:KEY}`, a properties file),
DirectoryConfigProvider (`${dir:PATH:FILE}`, a file for each value) and EnvVarConfigProvider (`${env:NAME}`).
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tailrace.config.properties import PropertiesError, read_properties
from tailrace.connect.plugin.error import ConfigError, Problem

_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}:]*)\}")
_PROVIDERS = ("file", "dir", "env")


def expand(config: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration with the values that it refers to; raises `ConfigError` that names the settings."""
    expanded, problems = {}, []
    for name, text in config.items():
        try:
            expanded[name] = _REFERENCE.sub(_look_up, text)
        except _Missing as error:
            problems.append(Problem(name, str(error)))
    if problems:
        raise ConfigError(problems)
    return expanded


class _Missing(Exception):
    """A reference that has no value."""


def _look_up(match: re.Match[str]) -> str:
    provider, path, key = match[1], match[2] or "", match[3]
    match provider:
        case "file":
            return _read_property(match[0], Path(path), key)
        case "dir":
            return _read_file(match[0], Path(path), key)
        case "env":
            if key not in os.environ:
                raise _Missing(f"{match[0]}: the service has no environment variable {key}")
            return os.environ[key]
        case _:
            raise _Missing(f"{match[0]}: there is no config provider {provider}; there are {', '.join(_PROVIDERS)}")


def _read_property(reference: str, path: Path, key: str) -> str:
    try:
        found = {entry.name: entry.value for entry in read_properties(path)}
    except OSError as error:
        raise _Missing(f"{reference}: {path} cannot be read: {error.strerror}") from None
    except PropertiesError as error:
        raise _Missing(f"{reference}: {path} is not a properties file: {error}") from None
    if key not in found:
        raise _Missing(f"{reference}: {path} has no property {key}")
    return found[key]


def _read_file(reference: str, folder: Path, name: str) -> str:
    if Path(name).name != name:
        raise _Missing(f"{reference}: {name!r} is not the name of a file in {folder}")
    try:
        return (folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise _Missing(f"{reference}: {folder / name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _Missing(f"{reference}: {folder / name} is not text") from None
