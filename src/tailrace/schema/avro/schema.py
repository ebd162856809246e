"""An Avro schema as the registry knows it."""

from collections.abc import Iterable
from typing import Self

from tailrace.records.avro.parser import Parser
from tailrace.records.avro.type import InvalidAvroSchema, Named, Record, Type
from tailrace.schema.avro.compatibility import differences
from tailrace.schema.avro.writer import Writer
from tailrace.schema.language import CompatibilityPolicy, Difference, Imports, InvalidSchema, SchemaType


class AvroSchema:
    """A parsed schema together with the named types of its references.

    `known` are the full names of the references, and `foreign` those of all types that they define.
    """

    def __init__(
        self, root: Type, known: Iterable[str] = (), foreign: Iterable[str] = (), *, is_normal: bool = False
    ) -> None:
        self._root = root
        self._known = frozenset(known)
        self._foreign = frozenset(foreign)
        self._is_normal = is_normal
        self._text = Writer(self._known, is_normal=is_normal, foreign=self._foreign).write(root)
        try:
            self._text.encode()
        except UnicodeEncodeError as error:
            raise InvalidSchema(
                f"The schema contains half of a surrogate pair: {error.object[error.start]!a}"
            ) from None

    @property
    def type(self) -> SchemaType:
        """The language of the schema."""
        return SchemaType.AVRO

    @property
    def text(self) -> str:
        """The text as Avro for Java writes it, without the definitions of references."""
        return self._text

    @property
    def name(self) -> str | None:
        """The full name of the record, if the schema is one."""
        return self._root.name.full if isinstance(self._root, Record) else None

    @property
    def root(self) -> Type:
        """The type that the schema describes."""
        return self._root

    def normalized(self) -> Self:
        """Return the schema with sorted properties and aliases, and with defaults written as their types require.

        Confluent's registry does the same, except that it loses a union's default that does not fit the first branch.
        """
        return type(self)(self._root, self._known, self._foreign, is_normal=True)

    def differences(self, writer: Self, policy: CompatibilityPolicy = CompatibilityPolicy.STRICT) -> list[Difference]:
        """Return why this schema, as the reader's, cannot read what `writer` wrote. Avro has no policies."""
        return differences(self._root, writer.root)

    def formatted(self, form: str) -> str:
        """Return the text; for `resolved`, with the definitions of the references in place of their names."""
        if form.strip().lower() != "resolved":
            return self._text
        return Writer(is_normal=self._is_normal, foreign=self._foreign).write(self._root, depth_max=None)


def parse(text: str, imports: Imports | None = None, *, is_new: bool = True) -> AvroSchema:
    """Parse a schema that may use the named types of `imports`.

    A new schema must have names of ASCII letters, and defaults that fit their types. With `is_new=False` the parser is
    as tolerant as Confluent's is with stored schemas, which older versions may have accepted.
    """
    parser = Parser(is_new=is_new)
    known: list[str] = []
    for name, imported_text in (imports or {}).items():
        try:
            imported = parser.parse(imported_text)
        except InvalidAvroSchema as error:
            raise InvalidSchema(f"Reference '{name}': {error}") from None
        if isinstance(imported, Named):
            known.append(imported.name.full)
    foreign = list(parser.named)
    try:
        root = parser.parse(text)
    except InvalidAvroSchema as error:
        raise InvalidSchema(str(error)) from None
    return AvroSchema(root, known, foreign)
