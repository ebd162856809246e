"""The types and extensions that a file can name, and how a name is resolved in a place of the file."""

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tailrace.base.schema_limits import PROTOBUF_NAME_CHARACTERS_MAX
from tailrace.schema.language import InvalidSchema
from tailrace.schema.protobuf.element import Enum, Extend, Field, Message, ProtoFile

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NamedType:
    """A message or an enum, the file that declares it, and its name inside of the file's package."""

    element: Message | Enum
    file: str
    package: str
    local_name: str

    @property
    def full_name(self) -> str:
        """The name with the package, without a dot in front."""
        return f"{self.package}.{self.local_name}" if self.package else self.local_name


@dataclass(frozen=True, slots=True)
class NamedExtension:
    """A field of an extend declaration, with its full name."""

    field: Field
    file: str
    full_name: str


@dataclass(frozen=True, slots=True)
class NameTable:
    """All types and extensions of some files by their full names."""

    types: MutableMapping[str, NamedType]
    extensions: MutableMapping[str, NamedExtension]

    @classmethod
    def of(cls, files: Mapping[str, ProtoFile], base: "NameTable | None" = None) -> "NameTable":
        """Collect the names of files. They win over those of `base`, and those of a later file over an earlier one.

        Raises InvalidSchema if the name of a type is too long.
        """
        table = cls({}, {}) if base is None else cls(ChainMap({}, base.types), ChainMap({}, base.extensions))
        for name, file in files.items():
            package = file.package or ""
            table._add_extensions(name, package, file.extends)
            table._add_types(name, package, "", file.types)
        return table

    def _add_types(self, file: str, package: str, outer: str, elements: Iterable[Message | Enum]) -> None:
        for element in elements:
            named = NamedType(element, file, package, f"{outer}{element.name}")
            if len(named.full_name) > PROTOBUF_NAME_CHARACTERS_MAX:
                raise InvalidSchema(
                    f"the full name of a type has {len(named.full_name)} characters of at most "
                    f"{PROTOBUF_NAME_CHARACTERS_MAX}: {named.full_name[:100]}…"
                )
            self.types[named.full_name] = named
            if isinstance(element, Message):
                inner = f"{named.local_name}."
                prefix = f"{package}.{inner}" if package else inner
                self._add_extensions(file, prefix[:-1], element.extends)
                self._add_types(file, package, inner, element.types)

    def _add_extensions(self, file: str, prefix: str, extends: Iterable[Extend]) -> None:
        for extend in extends:
            for field in extend.fields:
                name = f"{prefix}.{field.name}" if prefix else field.name
                self.extensions[name] = NamedExtension(field, file, name)


class Scope:
    """A place in a file. A name is searched in the innermost message first, and then outwards."""

    def __init__(self, table: NameTable, package: str | None, local_name: str = "") -> None:
        self._table = table
        self._parts = [*(package or "").split("."), *local_name.split(".")]
        self._parts = [part for part in self._parts if part]

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Enter a message for the time of a `with` block."""
        self._parts.append(name)
        try:
            yield
        finally:
            self._parts.pop()

    @property
    def full_name(self) -> str:
        """The name of the package and the messages around this place, with a dot in front."""
        return "".join(f".{part}" for part in self._parts)

    def type(self, name: str) -> NamedType | None:
        """Return the type that a name means here."""
        return self._find(self._table.types, name)

    def extension(self, name: str) -> NamedExtension | None:
        """Return the extension that a name means here."""
        return self._find(self._table.extensions, name)

    def _find(self, names: Mapping[str, T], name: str) -> T | None:
        if name.startswith("."):
            return names.get(name[1:])
        for count in range(len(self._parts), 0, -1):
            found = names.get(f"{'.'.join(self._parts[:count])}.{name}")
            if found is not None:
                return found
        return names.get(name)
