"""The validation of a configuration, as the REST API of Kafka Connect answers it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.connect.plugin.base import HIDDEN, Definition, Plugin, Type
from tailrace.connect.plugin.connector_setting import CONNECTOR_CLASS
from tailrace.connect.plugin.setting import InvalidValue, Settings, parse_value
from tailrace.connect.plugin.translation import examine


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """What is wrong with a configuration, setting by setting."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the object that the REST API answers."""
        return {
            "name": self.name,
            "error_count": self.error_count,
            "groups": list(self.groups),
            "configs": list(self.configs),
        }

    @property
    def errors(self) -> list[str]:
        """All messages."""
        return [message for config in self.configs for message in config["value"]["errors"]]


def validate(
    plugin: Plugin, config: Mapping[str, str | None], worker: Mapping[str, str] | None = None
) -> ValidationResult:
    """Return what is wrong with a configuration. Settings that cannot be honoured have an error, too."""
    settings, _ = examine(plugin, config, worker)
    errors: dict[str, list[str]] = {}
    for problem in settings.problems:
        errors.setdefault(problem.name, []).append(problem.message)
    definitions = settings.definitions.values()
    unknown = [name for name in dict.fromkeys((*errors, *config)) if name not in settings.definitions]
    configs = [_config(None, name, config.get(name), errors) for name in unknown if name in errors]
    configs += [_config(each, each.name, _shown(each, settings), errors) for each in definitions]
    return ValidationResult(
        config.get(CONNECTOR_CLASS) or plugin.class_name,
        len(settings.problems),
        tuple(dict.fromkeys(each.group for each in definitions if each.group is not None)),
        tuple(configs),
    )


def _config(
    definition: Definition | None, name: str, value: str | None, errors: Mapping[str, list[str]]
) -> dict[str, Any]:
    return {
        "definition": None if definition is None else definition.to_json(),
        "value": {
            "name": name,
            "value": value,
            "recommended_values": [] if definition is None else list(definition.recommended),
            "errors": errors.get(name, []),
            "visible": True,
        },
    }


def _shown(definition: Definition, settings: Settings) -> str | None:
    """Return the value of a setting as text: what was given, with references to config providers as they are."""
    given = settings.config.get(definition.name, definition.default)
    if given is None:
        return None
    if definition.type is Type.PASSWORD:
        return HIDDEN
    try:
        value = parse_value(definition, given)
    except InvalidValue:
        return given if "${" in given else None
    if definition.type is Type.LIST:
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
