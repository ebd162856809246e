"""Converters: the formats of keys and values, which Kafka Connect names by Java classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tailrace.connect.plugin.connector_setting import (
    AVRO_CLASS,
    BYTES_CLASS,
    CONVERTERS,
    JSON_CLASS,
    PLUGIN_VERSION,
    STRING_CLASS,
)
from tailrace.connect.plugin.setting import Settings

__all__ = ["AVRO_CLASS", "BYTES_CLASS", "JSON_CLASS", "STRING_CLASS", "Converter", "Format", "find_converter"]


class Format(StrEnum):
    """The formats of keys and values."""

    TEXT = "text"
    JSON = "JSON without schemas"
    JSON_WITH_SCHEMA = "JSON with schemas"
    BYTES = "bytes"
    AVRO = "Avro"


@dataclass(frozen=True, slots=True)
class Converter:
    """A format, and the schema registry of Avro."""

    format: Format
    registry: Mapping[str, str] = field(default_factory=dict)


_ACCEPTED: dict[str, dict[str, tuple[str, ...] | None]] = {
    STRING_CLASS: {"converter.encoding": ("utf-8", "utf8")},
    JSON_CLASS: {"schemas.cache.size": None, "decimal.format": ("numeric",), "replace.null.with.default": ("false",)},
    BYTES_CLASS: {},
    AVRO_CLASS: {
        "auto.register.schemas": ("true",),
        "use.latest.version": ("false",),
        "basic.auth.credentials.source": ("user_info",),
    },
}
"""The settings of converters that change nothing, with the values for which this is so; None for any value."""

_REGISTRY = {"schema.registry.url": "url", "basic.auth.user.info": "basic.auth.user.info"}
_REGISTRY |= {f"schema.registry.{name}": name for name in ("basic.auth.user.info", "ssl.ca.location")}
_REFUSED = "this setting of a converter is not supported; remove it"


def find_converter(settings: Settings, which: str, default: Converter, accepted: Sequence[Format]) -> Converter:
    """Return the converter of keys or values; adds a problem if the plugin cannot use it.

    That of the worker is used if the connector names none, as in Kafka Connect.
    """
    name = f"{which}.converter"
    prefix = f"{name}."
    given = settings.below(prefix)
    given.pop(PLUGIN_VERSION, None)  # `check_definitions` compares it
    if settings.is_given(name):
        class_name = settings.text(name)
    elif name in settings.worker:
        class_name = settings.worker[name]
        given = {key.removeprefix(prefix): text for key, text in settings.worker.items() if key.startswith(prefix)}
    else:
        for key in given:
            settings.refuse(prefix + key, f"it needs {name}, the converter that it is for")
        return default
    found = _resolve(class_name)
    if found is None:
        settings.refuse(name, f"there is no converter {class_name}; there are {', '.join(CONVERTERS)}")
        return default
    chosen = _read_converter(settings, prefix, found, dict(given))
    if chosen.format not in accepted:
        settings.refuse(
            f"{prefix}schemas.enable" if found == JSON_CLASS else name,
            f"{chosen.format} is not possible for the {which}s of this connector; use {' or '.join(accepted)}",
        )
        return default
    return chosen


def _resolve(class_name: str) -> str | None:
    for known in CONVERTERS:
        simple = known.rpartition(".")[2]
        if class_name in (known, simple, simple.removesuffix("Converter")):
            return known
    return None


def _read_converter(settings: Settings, prefix: str, class_name: str, given: dict[str, str]) -> Converter:
    format_ = {STRING_CLASS: Format.TEXT, BYTES_CLASS: Format.BYTES, AVRO_CLASS: Format.AVRO}.get(class_name)
    registry: dict[str, str] = {}
    if class_name == JSON_CLASS:
        with_schema = given.pop("schemas.enable", "true").strip().lower() != "false"
        format_ = Format.JSON_WITH_SCHEMA if with_schema else Format.JSON
    if class_name == AVRO_CLASS:
        registry = {_REGISTRY[key]: given.pop(key) for key in list(given) if key in _REGISTRY}
        if "url" not in registry:
            settings.refuse(f"{prefix}schema.registry.url", "Avro needs the URL of the schema registry")
    for key, text in given.items():
        known = _ACCEPTED[class_name]
        if key not in known:
            settings.refuse(prefix + key, _REFUSED)
        elif (values := known[key]) is not None and text.strip().lower() not in values:
            settings.refuse(prefix + key, f"only {' or '.join(values)} is supported")
    assert format_ is not None  # noqa: S101 - every known class has a format
    return Converter(format_, registry)
