"""What a schema of any type offers to the registry.

Each type has a folder of its own (`avro`, `json_schema`, `protobuf`) with a function `parse(text, imports)`, which
returns a `Schema` or raises `InvalidSchema`. `imports` maps the name of each reference to the text of the schema that
it means; it holds indirect references too, and a schema comes after those that it refers to.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self

from tailrace.base.schema_limits import SCHEMA_NESTING_DEPTH_MAX

Imports = Mapping[str, str]

NESTING_DEPTH_MAX = SCHEMA_NESTING_DEPTH_MAX
"""Types inside types. Deeper schemas are refused."""


class SchemaType(StrEnum):
    """The languages in which a schema can be written."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class CompatibilityPolicy(StrEnum):
    """How JSON Schema treats properties that are added to or taken from an open content model."""

    STRICT = "STRICT"
    LENIENT = "LENIENT"


class InvalidSchema(ValueError):
    """A text that is not a schema of its type. The message says where and why."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A name that a schema uses, and the subject and version that it stands for."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Difference:
    """One reason why a reader's schema cannot read what was written with a writer's schema.

    `kind` is the error type that Confluent's registry names, `path` leads to the place in the reader's schema, and
    `message` tells a person which field breaks what.
    """

    kind: str
    path: str
    message: str


class Schema(Protocol):
    """A parsed schema together with what it refers to."""

    @property
    def type(self) -> SchemaType:
        """The language of the schema."""

    @property
    def text(self) -> str:
        """The canonical text, which the registry stores and returns: white space and comments have no part in it."""

    @property
    def name(self) -> str | None:
        """The full name of the record or message that the schema describes, if it has one."""

    def normalized(self) -> Self:
        """Return the same schema in a form that is equal for texts that differ only in order or notation."""

    def differences(self, writer: Self, policy: CompatibilityPolicy = CompatibilityPolicy.STRICT) -> list[Difference]:
        """Return why this schema, as the reader's, cannot read what `writer` wrote. Empty if it can."""

    def formatted(self, form: str) -> str:
        """Return the text in a form that a client asks for by name; an unknown or empty name gives `text`."""
