"""The translation of a configuration of Kafka Connect into a pipeline."""

from collections.abc import Mapping

from tailrace.connect.plugin.base import Plugin, Translation
from tailrace.connect.plugin.connector_setting import CONNECTOR_CLASS, NAME, all_definitions
from tailrace.connect.plugin.document import check_document
from tailrace.connect.plugin.error import ConfigError, Problem
from tailrace.connect.plugin.known import find_plugin
from tailrace.connect.plugin.provider import expand
from tailrace.connect.plugin.setting import Settings


def translate(name: str, config: Mapping[str, str], worker: Mapping[str, str] | None = None) -> Translation:
    """Return the pipeline of a connector.

    Raises `ConfigError` that names each setting that is wrong or cannot be honoured. References to config providers are
    replaced by their values. `worker` has the configs of the worker: the converters of connectors that name none.
    """
    settings, translation = examine(find_plugin(_class_of(config)), {**config, NAME: name}, worker)
    settings.raise_problems()
    assert translation is not None  # noqa: S101 - only problems leave it out
    return translation


def examine(
    plugin: Plugin, config: Mapping[str, str | None], worker: Mapping[str, str] | None = None
) -> tuple[Settings, Translation | None]:
    """Return the settings of a connector with all their problems, and its pipeline if there are none."""
    expanded, missing = expand(config)
    settings = Settings(config.get(NAME) or "", all_definitions(plugin, worker), config, expanded, worker)
    settings.problems += missing
    settings.check_definitions()
    _check_transforms(settings)
    translation = plugin.translate(settings)
    settings.check_all_used()
    if not settings.problems:
        _check_documents(settings, translation)
    return settings, None if settings.problems else translation


def _check_documents(settings: Settings, translation: Translation) -> None:
    """Add what the flows of the pipeline find wrong with their arguments."""
    for document in translation.documents:
        if (reason := check_document(document)) is not None:
            settings.refuse(CONNECTOR_CLASS, reason)


def _check_transforms(settings: Settings) -> None:
    """Refuse the settings of transformations, which have names of their own."""
    for kind in ("transforms.", "predicates.", "admin.override."):
        for name in settings.below(kind):
            settings.refuse(kind + name, "this setting is not supported; remove it")


def _class_of(config: Mapping[str, str]) -> str:
    found = config.get(CONNECTOR_CLASS)
    if not found:
        raise ConfigError([Problem(CONNECTOR_CLASS, f'Missing required configuration "{CONNECTOR_CLASS}"')])
    return found
