"""The settings of a connector: typed values, defaults, and the problems that were found with them."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tailrace.connect.plugin.base import HIDDEN, Definition, Type
from tailrace.connect.plugin.error import ConfigError, Problem

_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}
_INTEGER = re.compile(r"[+-]?[0-9]{1,100}", re.ASCII)


class InvalidValue(Exception):
    """The text of a setting is not a value of its type."""


def parse_value(definition: Definition, text: str) -> Any:
    """Return the value of a text; raises `InvalidValue` with the reason."""
    trimmed = text.strip()
    match definition.type:
        case Type.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise InvalidValue("Expected value to be either true or false")
            return trimmed.lower() == "true"
        case Type.SHORT | Type.INT | Type.LONG:
            limit = 1 << (_BITS[definition.type] - 1)
            if not _INTEGER.fullmatch(trimmed) or not -limit <= int(trimmed) < limit:
                raise InvalidValue(f"Not a number of type {definition.type}")
            return int(trimmed)
        case Type.DOUBLE:
            try:
                return float(trimmed)
            except ValueError:
                raise InvalidValue(f"Not a number of type {definition.type}") from None
        case Type.LIST:
            return [part.strip() for part in trimmed.split(",")] if trimmed else []
        case _:
            return trimmed


def invalid_value(definition: Definition, shown: object, reason: str) -> str:
    """Return the message about a value that is wrong, in Kafka's form."""
    value = HIDDEN if definition.type is Type.PASSWORD else shown
    return f"Invalid value {value} for configuration {definition.name}: {reason}"


class Settings:
    """The settings of one connector. Problems are collected, so that all of them are reported together.

    `config` is what was given, which may have references to config providers; `expanded` has their values, which
    messages never show.
    """

    def __init__(
        self,
        name: str,
        definitions: Iterable[Definition],
        config: Mapping[str, str | None],
        expanded: Mapping[str, str] | None = None,
        worker: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        """The name of the connector."""
        self.definitions = {definition.name: definition for definition in definitions}
        self.config = config
        self.worker = worker or {}
        """The converters of connectors that name none."""
        self._texts = {key: text for key, text in (expanded or config).items() if text is not None}
        self._used: set[str] = set()
        self.problems: list[Problem] = []

    def is_given(self, name: str) -> bool:
        """Return whether the configuration has this setting, with a value that is not blank."""
        return bool(self._texts.get(name, "").strip())

    def text(self, name: str) -> str:
        """Return a setting as text; empty without a value."""
        value = self.value(name)
        return "" if value is None else str(value)

    def value(self, name: str) -> Any:
        """Return a setting, or its default; None if it has neither, or its value is invalid."""
        self._used.add(name)
        definition = self.definitions[name]
        text = self._texts.get(name, definition.default)
        if text is None:
            return None
        try:
            return parse_value(definition, text)
        except InvalidValue:
            return None  # `check_definitions` has reported it

    def number(self, name: str) -> int:
        """Return an integer, or 0 if the value is invalid."""
        return int(self.value(name) or 0)

    def flag(self, name: str) -> bool:
        """Return a boolean."""
        return bool(self.value(name))

    def items(self, name: str) -> list[str]:
        """Return the texts of a list, without the empty ones."""
        return [item for item in dict.fromkeys(self.value(name) or ()) if item]

    def below(self, prefix: str) -> dict[str, str]:
        """Return the settings whose names begin with a prefix, without it, and take them as used."""
        found = {key: text for key, text in self._texts.items() if key.startswith(prefix)}
        self._used.update(found)
        return {key.removeprefix(prefix): text for key, text in found.items()}

    def refuse(self, name: str, message: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(name, message))

    # --- checks

    def check_definitions(self) -> None:
        """Add the problems that each setting has by itself."""
        for name, text in self.config.items():
            if text is None:
                self.refuse(name, "Null value can not be supplied as the configuration value.")
        for definition in self.definitions.values():
            self._check(definition)

    def _check(self, definition: Definition) -> None:
        name, text = definition.name, self._texts.get(definition.name)
        if text is None:
            if definition.required and name not in self.config:
                self.refuse(name, f'Missing required configuration "{name}" which has no default value.')
            return
        shown = self.config.get(name)
        try:
            value = parse_value(definition, text)
        except InvalidValue as error:
            self.refuse(name, invalid_value(definition, shown, str(error)))
            return
        reason = None if definition.check is None else definition.check(value)
        if reason is not None:
            self.refuse(name, invalid_value(definition, shown, reason))
        elif (refusal := definition.refuse(text)) is not None and text.strip():
            self.refuse(name, refusal)

    def check_all_used(self) -> None:
        """Add a problem for each setting that has no definition, and that the translation did not use."""
        for name in self._texts:
            if name not in self.definitions and name not in self._used:
                self.refuse(name, "this setting is not known; remove it, or correct its name")

    def raise_problems(self) -> None:
        """Raise `ConfigError` if there are problems."""
        if self.problems:
            raise ConfigError(self.problems)
