"""Config providers: values of settings that stand in files or in the environment.

The references are those of Kafka's FileConfigProvider (`${file:PATH:KEY}`, a properties file),
DirectoryConfigProvider (`${dir:PATH:FILE}`, a file for each value) and EnvVarConfigProvider (`${env:NAME}`).
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from tailrace.base.limits import CONNECT_FILE_BYTES_MAX, CONNECT_REFERENCED_BYTES_MAX, CONNECT_REFERENCES_MAX
from tailrace.config.properties import PropertiesError, decode_properties
from tailrace.connect.plugin.error import Problem

_PROVIDERS = ("file", "dir", "env")


def expand(config: Mapping[str, str | None]) -> tuple[dict[str, str], list[Problem]]:
    """Return the settings that have a value, with the values that they refer to, and the problems with that.

    A setting with a problem keeps its text.
    """
    expanded: dict[str, str] = {}
    problems: list[Problem] = []
    values = _Values()
    for name, text in config.items():
        if text is None:
            continue
        try:
            expanded[name] = _replace(text, values)
        except _Missing as error:
            expanded[name] = text
            problems.append(Problem(name, str(error)))
    return expanded, problems


class _Missing(Exception):
    """A reference that has no value."""


def _replace(text: str, values: "_Values") -> str:
    """Return a text with the values of its references.

    A reference reaches from `${` to the next `}` and has a colon. Without a colon it is text: `${topic}` is a
    placeholder of some connectors. A regular expression would search for the `}` of each `${` that has none.
    """
    found: list[str] = []
    copied = at = 0
    while (start := text.find("${", at)) >= 0 and (end := text.find("}", start)) >= 0:
        inside, at = text[start + 2 : end], end + 1
        if ":" in inside:
            found += (text[copied:start], values.look_up(inside))
            copied = at
    return "".join(found) + text[copied:]


class _Values:
    """The values that the references of one config stand for. It reads each properties file once."""

    def __init__(self) -> None:
        self._properties: dict[str, dict[str, str]] = {}
        self._left_bytes = CONNECT_REFERENCED_BYTES_MAX
        self._left = CONNECT_REFERENCES_MAX

    def look_up(self, inside: str) -> str:
        """Return the value of a reference, which is given without its braces. Raises `_Missing`."""
        reference = f"${{{inside}}}"
        self._left -= 1
        if self._left < 0:
            raise _Missing(f"{reference}: the config has more than {CONNECT_REFERENCES_MAX} references; use fewer")
        provider, _, rest = inside.partition(":")
        path, _, key = rest.rpartition(":")
        match provider:
            case "file":
                value = self._read_property(reference, path, key)
            case "dir":
                value = self._read_value(reference, Path(path), key)
            case "env":
                if key not in os.environ:
                    raise _Missing(f"{reference}: the service has no environment variable {key}")
                value = os.environ[key]
            case _:
                raise _Missing(
                    f"{reference}: there is no config provider {provider}; there are {', '.join(_PROVIDERS)}"
                )
        self._count(reference, len(value))
        return value

    def _read_property(self, reference: str, path: str, key: str) -> str:
        found = self._properties.get(path)
        if found is None:
            try:
                entries = decode_properties(self._read(reference, Path(path)))
            except PropertiesError as error:
                raise _Missing(f"{reference}: {path} is not a properties file: {error}") from None
            found = self._properties[path] = {entry.name: entry.value for entry in entries}
        if key not in found:
            raise _Missing(f"{reference}: {path} has no property {key}")
        return found[key]

    def _read_value(self, reference: str, folder: Path, name: str) -> str:
        if Path(name).name != name:
            raise _Missing(f"{reference}: {name!r} is not the name of a file in {folder}")
        try:
            return self._read(reference, folder / name).decode().replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError:
            raise _Missing(f"{reference}: {folder / name} is not text") from None

    def _read(self, reference: str, path: Path) -> bytes:
        try:
            content = _read_regular_file(path)
        except OSError as error:
            raise _Missing(f"{reference}: {path} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise _Missing(f"{reference}: {path} cannot be read: {error}") from None
        self._count(reference, len(content))
        return content

    def _count(self, reference: str, size_bytes: int) -> None:
        """Count what a config has read; raises `_Missing` if that is more than a config may read."""
        self._left_bytes -= size_bytes
        if self._left_bytes < 0:
            raise _Missing(
                f"{reference}: the files and values that the config refers to have more than "
                f"{CONNECT_REFERENCED_BYTES_MAX} bytes together; use smaller files or fewer references"
            )


def _read_regular_file(path: Path) -> bytes:
    """Return the content of a file. Raises OSError or ValueError; never waits for a pipe or reads a device."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file; name one")
        content = file.read(CONNECT_FILE_BYTES_MAX + 1) or b""
    if len(content) > CONNECT_FILE_BYTES_MAX:
        raise ValueError(f"it has more than {CONNECT_FILE_BYTES_MAX} bytes; name a smaller file")
    return content
