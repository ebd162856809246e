"""The declaration of messages: one class for all versions of a message.

A class body lists fields with `wire(...)`. The metaclass replaces them by slots and stores them in the
class's `SCHEMA`. Everything else is derived from the schema: the constructor here, the compiled codec
in `codec`, the slow one in `reference`.

Hundreds of classes are declared when the registry is imported, so a declaration does only the
necessary work. For example, the constructor is compiled on its first call.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, TypeVar, dataclass_transform

from tailrace.base.invariant import invariant
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.primitive import FRESH, Array, WireType

VERSION_MAX = 0x7FFF
_UNSET: object = object()


@cache
def parse_versions(text: str) -> range:
    """Parse Kafka's notation: `3+`, `1-5`, `4` or `none`."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), VERSION_MAX + 1)
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


class Field:
    """One field of a struct, with the versions in which it appears, is nullable and is tagged."""

    __slots__ = ("default", "ignorable", "name", "nullable", "tag", "tagged", "type", "versions")

    def __init__(
        self,
        type: WireType | type,
        versions: str,
        nullable: str,
        default: object,
        tag: int,
        tagged: str,
        ignorable: bool,
    ) -> None:
        self.name = ""
        self.type = type
        self.versions = parse_versions(versions)
        self.nullable = parse_versions(nullable)
        self.default = default
        self.tag = tag
        self.tagged = parse_versions(tagged)
        self.ignorable = ignorable

    def fresh_default(self) -> Any:
        """Return the value of an unset field; a new object if it is mutable."""
        if self.default is not FRESH:
            return self.default
        return self.type() if isinstance(self.type, type) else []

    def __repr__(self) -> str:
        return f"<{self.name}: {self.type!r}>"


def wire(
    type: "WireType | type[Message]",
    versions: str,
    *,
    nullable: str = "none",
    default: object = _UNSET,
    tag: int = -1,
    tagged: str = "none",
    ignorable: bool = False,
) -> Any:
    """Declare a field: its type, and the versions in which it appears, may be null, or is tagged.

    An ignorable field is dropped in versions that lack it; any other field must have its default there.
    A tagged struct defaults to None, which leaves it out, where Kafka builds an object only to compare it. A nullable
    tagged struct defaults to an empty struct as in Kafka, because there null is written.
    """
    if default is _UNSET:
        default = type.default if isinstance(type, WireType) else (None if tag >= 0 and nullable == "none" else FRESH)
    return Field(type, versions, nullable, default, tag, tagged, ignorable)


class Schema:
    """The declared fields of a class and, for a whole message, its API key and versions."""

    __slots__ = ("fields", "flexible", "key", "type", "versions")

    def __init__(self, type: "type[Message]", fields: tuple[Field, ...]) -> None:
        self.type = type
        self.fields = fields
        self.key: ApiKey | None = None
        self.versions = range(0)
        self.flexible = range(0)

    @property
    def name(self) -> str:
        return self.type.__name__

    def untagged_fields(self, version: int) -> list[Field]:
        """Return the fields in the body of this version, in order."""
        return [field for field in self.fields if version in field.versions and version not in field.tagged]

    def tagged_fields(self, version: int) -> list[Field]:
        """Return the fields in the tagged section of this version, lowest tag first."""
        tagged = [field for field in self.fields if version in field.versions and version in field.tagged]
        return sorted(tagged, key=lambda field: field.tag)

    def absent_fields(self, version: int) -> list[Field]:
        """Return the fields that this version lacks."""
        return [field for field in self.fields if version not in field.versions]

    @property
    def is_request(self) -> bool:
        return self.name.endswith("Request")


class MessageType(type):
    """Replaces the fields of a class body by slots and a schema."""

    SCHEMA: Schema

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "MessageType":
        fields = tuple(value for value in namespace.values() if isinstance(value, Field))
        for field_name in [key for key, value in namespace.items() if isinstance(value, Field)]:
            namespace.pop(field_name).name = field_name
        namespace["__slots__"] = tuple(field.name for field in fields)
        cls = super().__new__(mcs, name, bases, namespace)
        cls.SCHEMA = Schema(cls, fields)  # type: ignore[arg-type]
        return cls


@dataclass_transform(kw_only_default=True)
class Message(metaclass=MessageType):
    """A request, a response or a struct inside one; plain data with keyword arguments."""

    SCHEMA: ClassVar[Schema]
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, **values: Any) -> None:
        # Only the first construction of a class comes here.
        initializer = compile_initializer(type(self).SCHEMA)
        type(self).__init__ = initializer  # type: ignore[method-assign]
        initializer(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.SCHEMA.fields)

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.SCHEMA.fields)
        return f"{type(self).__name__}({values})"


def compile_initializer(schema: Schema) -> Callable[..., None]:
    """Generate and compile the constructor of a class: one keyword and one assignment for each field."""
    scope: dict[str, Any] = {"FRESH": FRESH}
    parameters = []
    body = []
    for index, field in enumerate(schema.fields):
        if field.default is FRESH:
            parameters.append(f"{field.name}=FRESH")
            scope[f"struct_{index}"] = field.type
            fresh = "[]" if isinstance(field.type, Array) else f"struct_{index}()"
            body.append(f"    self.{field.name} = {fresh} if {field.name} is FRESH else {field.name}")
        else:
            parameters.append(f"{field.name}=default_{index}")
            scope[f"default_{index}"] = field.default
            body.append(f"    self.{field.name} = {field.name}")
    star = ", *, " if parameters else ""
    source = f"def __init__(self{star}{', '.join(parameters)}):\n" + ("\n".join(body) or "    pass")
    exec(source, scope)  # noqa: S102  the source consists of field names only
    return scope["__init__"]  # type: ignore[no-any-return]


M = TypeVar("M", bound=Message)


def message(*, versions: str, key: int | None = None, flexible: str = "none") -> Callable[[type[M]], type[M]]:
    """Declare a class as a whole message with these versions; `key` is None for data inside other messages."""

    def declare(cls: type[M]) -> type[M]:
        schema = cls.SCHEMA
        schema.key = None if key is None else ApiKey(key)
        schema.versions = parse_versions(versions)
        schema.flexible = parse_versions(flexible)
        has_side = cls.__name__.endswith(("Request", "Response"))
        invariant(key is None or has_side, f"{cls.__name__} ends with Request or Response")
        return cls

    return declare
