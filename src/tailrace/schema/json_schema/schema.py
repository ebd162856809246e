"""A JSON Schema as the registry handles it."""

from functools import cached_property
from typing import Self

from tailrace.schema.json_schema.compare import compare
from tailrace.schema.json_schema.document import Json, read, with_sorted_keys, write
from tailrace.schema.json_schema.draft import draft_of
from tailrace.schema.json_schema.message import difference
from tailrace.schema.json_schema.model import build
from tailrace.schema.json_schema.node import Node
from tailrace.schema.json_schema.reference import References
from tailrace.schema.language import CompatibilityPolicy, Difference, Imports, InvalidSchema, SchemaType

CHARACTERS_PER_NODE = 10
"""The shortest that a property takes in a text."""


class JsonSchema:
    """A valid JSON Schema together with the documents that it refers to."""

    def __init__(self, value: Json, imports: Imports) -> None:
        self._value = value
        self._imports = imports

    @property
    def type(self) -> SchemaType:
        """The language of the schema."""
        return SchemaType.JSON

    @cached_property
    def text(self) -> str:
        """The schema as compact JSON with its keys in their order."""
        return write(self._value)

    @property
    def name(self) -> str | None:
        """The title of the schema."""
        return self._value.get("title") if isinstance(self._value, dict) else None

    @property
    def imports(self) -> Imports:
        """The texts of the documents that the schema can refer to, by their names."""
        return self._imports

    @cached_property
    def references(self) -> References:
        """The documents that the schema can refer to."""
        return References(self._value, draft_of(self._value), self._imports)

    @cached_property
    def node(self) -> Node:
        """The schema in the form in which it is compared; to build it is to check it."""
        return build(self.references)

    def normalized(self) -> Self:
        """Return the schema with the keys of every object sorted."""
        return self.__class__(with_sorted_keys(self._value), self._imports)

    def differences(self, writer: Self, policy: CompatibilityPolicy = CompatibilityPolicy.STRICT) -> list[Difference]:
        """Return why this schema, as the reader's, cannot read what `writer` wrote. Empty if it can."""
        size = (len(self.text) + len(writer.text)) // CHARACTERS_PER_NODE
        return [difference(change) for change in compare(writer.node, self.node, policy, size)]

    def formatted(self, form: str) -> str:
        """Return `text`: JSON Schema has no other forms."""
        return self.text


def parse(text: str, imports: Imports) -> JsonSchema:
    """Return the schema of a text; raise InvalidSchema if it breaks the rules of its draft or refers to nothing."""
    value = read(text)
    if not isinstance(value, dict | bool):
        raise InvalidSchema("a JSON Schema is an object or a boolean")
    schema = JsonSchema(value, imports)
    _ = schema.node
    return schema
