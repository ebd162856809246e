"""The declaration that the schemas of a topic's values are in a registry."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tailrace.base.variable import REGISTRY_USER_VARIABLE, REGISTRY_VARIABLE
from tailrace.config.error import ConfigError
from tailrace.schema.setting import RegistrySettings
from tailrace.spark.error import PipelineError


class ValueFormat(StrEnum):
    """The formats of values that have a schema."""

    AVRO = "avro"
    JSON = "json"
    PROTOBUF = "protobuf"


@dataclass(frozen=True, slots=True)
class Registered:
    """A registry, and which of its schemas a source reads: a version, else the newest at the first or at each start."""

    format: ValueFormat
    registry: RegistrySettings
    version: int | None = None
    follow: bool = False


def check_registered(
    place: str,
    names: tuple[str, ...],
    schema: Any,
    format_: ValueFormat,
    registry: str | Mapping[str, str] | None,
    version: int | None,
    *,
    follow: bool,
) -> Registered:
    """Return the declaration. Raise `PipelineError` if its parts do not fit."""
    if registry is not None and not isinstance(registry, str | Mapping):
        raise PipelineError(f"{place}: registry= is a URL or a dictionary of configs, not {type(registry).__name__}")
    config = _with_variables(registry)
    if not config.get("url"):
        raise PipelineError(f'{place}: value="{format_}" needs a registry: set registry= or {REGISTRY_VARIABLE}')
    try:
        settings = RegistrySettings(config)
    except ConfigError as error:
        raise PipelineError(f"{place}: registry=: {error}") from None
    if schema is not None:
        raise PipelineError(f"{place}: the registry has the schema of the values; leave out schema=")
    if len(names) > 1:
        raise PipelineError(f"{place}: topics have schemas of their own; declare a source for each")
    if version is not None and (not isinstance(version, int) or isinstance(version, bool) or version < 1):
        raise PipelineError(f"{place}: schema_version={version!r} is not a positive number")
    if version is not None and follow:
        raise PipelineError(f"{place}: schema_version= fixes the schema, and follow= does not; leave one out")
    return Registered(format_, settings, version, bool(follow))


def _with_variables(registry: str | Mapping[str, str] | None) -> dict[str, str]:
    """Return the configs, with the URL and the user of the environment where there are no others."""
    given = {"url": registry} if isinstance(registry, str) else dict(registry or {})
    variables = {"url": REGISTRY_VARIABLE, "basic.auth.user.info": REGISTRY_USER_VARIABLE}
    found = {name: os.environ.get(variable) for name, variable in variables.items()}
    return {name: str(text) for name, text in {**found, **given}.items() if text}
