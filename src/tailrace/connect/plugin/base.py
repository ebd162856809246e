"""Plugins, the definitions of their settings, and the pipelines that configurations are translated to.

A definition has the fields that Kafka Connect's REST API shows. It also says how far a setting is supported: without
`accepted` every valid value is, else only those values are, and `instead` says what to do about others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tailrace import __version__

if TYPE_CHECKING:
    from tailrace.connect.plugin.setting import Settings

HIDDEN = "[hidden]"
"""What is shown in place of a password."""


class Kind(StrEnum):
    """The direction of a connector."""

    SOURCE = "source"
    SINK = "sink"


class Type(StrEnum):
    """The types of settings."""

    BOOLEAN = "BOOLEAN"
    CLASS = "CLASS"
    DOUBLE = "DOUBLE"
    INT = "INT"
    LIST = "LIST"
    LONG = "LONG"
    PASSWORD = "PASSWORD"  # noqa: S105 - the name of a type
    SHORT = "SHORT"
    STRING = "STRING"


class Importance(StrEnum):
    """How important a setting is."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(StrEnum):
    """How wide the field of a form should be."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


Check = Callable[[Any], str | None]
"""Returns what is wrong with a value that has the right type; None if it is valid."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a setting."""

    name: str
    type: Type = Type.STRING
    default: str | None = None
    importance: Importance = Importance.LOW
    documentation: str = ""
    group: str | None = None
    order: int = -1
    width: Width = Width.NONE
    display_name: str | None = None
    required: bool = False
    dependents: tuple[str, ...] = ()
    recommended: tuple[str, ...] = ()
    check: Check | None = None
    accepted: tuple[str, ...] | None = None
    """The only values that are supported, apart from the absence of the setting; None for all."""
    instead: str = ""
    """What to do in place of a value that is not supported."""

    def to_json(self) -> dict[str, Any]:
        """Return the object that the REST API shows."""
        return {
            "name": self.name,
            "type": self.type.value,
            "required": self.required,
            "default_value": self.default,
            "importance": self.importance.value,
            "documentation": self.documentation,
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width.value,
            "display_name": self.display_name or self.name,
            "dependents": list(self.dependents),
        }

    def refuse(self, text: str) -> str | None:
        """Return why this value is not supported; None if it is."""
        if self.accepted is None or text.strip().lower() in [value.lower() for value in self.accepted]:
            return None
        only = f"only {' and '.join(self.accepted)} can be used" if self.accepted else "this setting is not supported"
        return f"{only}; {self.instead}" if self.instead else only


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create before the connector starts, unless it exists; -1 leaves a number to the brokers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Translation:
    """The pipeline of a connector. The documents can contain passwords."""

    documents: tuple[dict[str, Any], ...]
    """The flows, each as the mapping of a YAML pipeline file."""
    topics_read: tuple[str, ...] = ()
    topics_written: tuple[str, ...] = ()
    new_topics: tuple[NewTopic, ...] = ()
    spark: Mapping[str, str] = field(default_factory=dict)
    """Configs of Spark that the flows need, such as spark.jars.packages."""

    @property
    def dead_letter_topics(self) -> list[str]:
        """The topics for records that cannot be processed."""
        errors = [document.get("errors") for document in self.documents]
        return [each["to"] for each in errors if isinstance(each, Mapping)]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A connector plugin."""

    class_name: str
    kind: Kind
    definitions: tuple[Definition, ...]
    """Its own settings; those of all connectors are in `connector_setting`."""
    translate: "Callable[[Settings], Translation]" = field(repr=False)
    """Adds a problem to the settings for each one that it cannot honour."""
    version: str = __version__

    @property
    def simple_name(self) -> str:
        """The name of the class without its package."""
        return self.class_name.rpartition(".")[2]

    @property
    def names(self) -> tuple[str, ...]:
        """What a configuration can call it: the full name, its last part, or that without the ending Connector."""
        return self.class_name, self.simple_name, self.simple_name.removesuffix("Connector")


class Group:
    """A group of settings, which numbers its definitions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._count = 0

    def define(
        self,
        name: str,
        kind: Type = Type.STRING,
        default: str | None = None,
        importance: Importance = Importance.LOW,
        documentation: str = "",
        *,
        required: bool = False,
        check: Check | None = None,
        recommended: tuple[str, ...] = (),
        accepted: tuple[str, ...] | None = None,
        instead: str = "",
    ) -> Definition:
        """Return the definition of the next setting."""
        self._count += 1
        return Definition(
            name,
            kind,
            default,
            importance,
            documentation,
            self.name,
            self._count,
            Width.MEDIUM,
            required=required,
            check=check,
            recommended=recommended,
            accepted=accepted,
            instead=instead,
        )

    def refuse(self, name: str, default: str | None = None, instead: str = "", kind: Type = Type.STRING) -> Definition:
        """Return the definition of a setting that is supported with its default only."""
        accepted = () if default is None else (default,)
        documentation = "Only its default is supported." if accepted else "It is not supported."
        return self.define(name, kind, default, documentation=documentation, accepted=accepted, instead=instead)
