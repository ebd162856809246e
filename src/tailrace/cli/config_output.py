"""The configs of resources as tables, plain lines and JSON."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.cli.output import write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.client.admin.core import Config, ConfigSynonym, ResourceType

_HIDDEN = "(hidden)"

_SOURCES = {
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""The names of sources in Kafka's tools, by code."""


class Resource(NamedTuple):
    """A topic, a broker or a group; the broker with an empty name stands for the default of all brokers."""

    kind: str
    name: str

    @property
    def type(self) -> "ResourceType":
        from tailrace.client.admin.core import ResourceType

        return ResourceType[self.kind.upper()]

    @property
    def shown_name(self) -> str:
        return self.name or "<default>"

    @property
    def own_source(self) -> str:
        """The source of a config that is set for this resource."""
        return f"DYNAMIC_{'' if self.name else 'DEFAULT_'}{self.kind.upper()}_CONFIG"

    def __str__(self) -> str:
        return f"{self.kind} {self.shown_name}"


class Listing(NamedTuple):
    """The configs of a resource."""

    resource: Resource
    configs: "tuple[Config, ...]"

    @property
    def names(self) -> list[str]:
        return [config.name for config in self.configs]

    def own(self) -> "Listing":
        """Return the configs that are set for the resource itself."""
        own = self.resource.own_source
        return Listing(self.resource, tuple(config for config in self.configs if _source(config.source) == own))

    def select(self, names: Iterable[str]) -> "Listing":
        """Return the configs with these names."""
        wanted = set(names)
        return Listing(self.resource, tuple(config for config in self.configs if config.name in wanted))


def write_listings(kind: str, listings: Sequence[Listing], as_json: bool) -> None:
    """Print the configs of resources of one type."""
    if as_json:
        write_json([_described(listing) for listing in listings])
        return
    rows = [
        (
            listing.resource.shown_name,
            config.name,
            _value(config.value, is_sensitive=config.is_sensitive),
            _source(config.source),
            _instead(config),
        )
        for listing in listings
        for config in listing.configs
    ]
    write_table((kind, "config", "value", "source", "synonyms"), rows)


def write_changed(verb: str, resource: Resource, names: Sequence[str], as_json: bool) -> None:
    """Print which configs were set or deleted, without their values, which may be secrets."""
    if as_json:
        write_json({"type": resource.kind, "name": resource.name or None, verb: list(names)})
    else:
        write_line(f"{verb} {', '.join(names)} of {resource}")


def _described(listing: Listing) -> dict[str, Any]:
    return {
        "type": listing.resource.kind,
        "name": listing.resource.name or None,
        "configs": [
            {
                "name": config.name,
                "value": config.value,
                "source": _source(config.source),
                "sensitive": config.is_sensitive,
                "read_only": config.is_read_only,
                "synonyms": [
                    {"name": synonym.name, "value": synonym.value, "source": _source(synonym.source)}
                    for synonym in config.synonyms
                ],
            }
            for config in listing.configs
        ],
    }


def _instead(config: "Config") -> str:
    """Return the synonyms of a config without the first one if that is the config itself."""
    synonyms = config.synonyms
    if synonyms and (synonyms[0].name, synonyms[0].source) == (config.name, config.source):
        synonyms = synonyms[1:]
    return ", ".join(_synonym(each, is_sensitive=config.is_sensitive) for each in synonyms) or "-"


def _synonym(synonym: "ConfigSynonym", *, is_sensitive: bool) -> str:
    return f"{_source(synonym.source)}:{synonym.name}={_value(synonym.value, is_sensitive=is_sensitive)}"


def _value(value: str | None, *, is_sensitive: bool) -> str:
    if is_sensitive:
        return _HIDDEN
    return "-" if value is None else value


def _source(code: int) -> str:
    return _SOURCES.get(code, str(code))
