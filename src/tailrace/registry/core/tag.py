"""Tags inside the text of a schema, which rules and catalogues refer to.

A record or a field of an Avro schema, or an object or a property of a JSON Schema, has its tags in the member
`confluent:tags`; a message or a field of a Protobuf schema has them in Confluent's option `message_meta` or
`field_meta`. A path names the place: `ns.Record.field` in Avro, `Message.field` without the package in Protobuf, and in
JSON Schema one word for each step, `object.address.object.street`, with `array`, `oneof.0`, `definitions.Name` and so
on where the schema has them.

Confluent's registry sorts the branches of `oneOf`, `anyOf` and `allOf` before it counts them; here they count in the
order of the text.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pydantic import Field

from tailrace.registry.core.entity import Entity
from tailrace.registry.core.error import Code, RegistryError
from tailrace.schema.language import InvalidSchema, SchemaType
from tailrace.schema.protobuf.tag import TaggedFile, TaggedPlace
from tailrace.web.member import Items

TAGS = "confluent:tags"
EVERY_TAG = "*"

_COMBINATIONS = {"oneOf": "oneof", "anyOf": "anyof", "allOf": "allof"}
_CONDITIONS = ("if", "then", "else")
_DEFINITIONS = ("definitions", "$defs")


class EntityType(StrEnum):
    """What a path leads to."""

    RECORD = "sr_record"
    FIELD = "sr_field"


class SchemaEntity(Entity):
    """A place in a schema that can have tags."""

    entity_path: str
    entity_type: EntityType


class SchemaTags(Entity):
    """The tags of a place in a schema."""

    schema_entity: SchemaEntity
    tags: Items[str] = Field(default_factory=list)


class _Tagged(Protocol):
    """A part of a parsed schema whose tags can be read and changed."""

    @property
    def tags(self) -> list[str]: ...

    def set_tags(self, tags: Sequence[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class _Node:
    """An object of a schema that is JSON."""

    members: dict[str, Any]

    @property
    def tags(self) -> list[str]:
        found = self.members.get(TAGS)
        return [str(tag) for tag in found] if isinstance(found, list) else []

    def set_tags(self, tags: Sequence[str]) -> None:
        self.members.pop(TAGS, None)
        if tags:
            self.members[TAGS] = list(tags)


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a parsed schema."""

    path: str
    type: EntityType
    part: _Tagged
    alias: str | None = None


class _Document(Protocol):
    """A parsed schema."""

    def places(self) -> Iterator[_Place]: ...

    def text(self) -> str: ...


class _JsonDocument:
    """An Avro schema or a JSON Schema."""

    def __init__(self, kind: SchemaType, text: str) -> None:
        self._kind = kind
        self._content = _load(text)

    def places(self) -> Iterator[_Place]:
        if self._kind is SchemaType.AVRO:
            return _avro_places(self._content, "")
        return _json_places(self._content, "", is_field=False)

    def text(self) -> str:
        return json.dumps(self._content, ensure_ascii=False)


class _ProtobufDocument:
    """A Protobuf schema."""

    def __init__(self, text: str) -> None:
        try:
            self._file = TaggedFile(text)
        except InvalidSchema as error:
            raise RegistryError(Code.INVALID_SCHEMA, f"The schema cannot have tags: {error}") from None

    def places(self) -> Iterator[_Place]:
        return map(_protobuf_place, self._file.places)

    def text(self) -> str:
        return self._file.text()


def find_tags(kind: SchemaType, text: str, wanted: Sequence[str]) -> list[SchemaTags]:
    """Return the places of a schema that have one of some tags; `*` stands for any tag."""
    return [
        SchemaTags(schema_entity=SchemaEntity(entity_path=place.path, entity_type=place.type), tags=place.part.tags)
        for place in _parsed(kind, text).places()
        if place.part.tags and (EVERY_TAG in wanted or set(place.part.tags) & set(wanted))
    ]


def change_tags(
    kind: SchemaType,
    text: str,
    to_add: Sequence[SchemaTags],
    to_remove: Sequence[SchemaTags],
    *,
    is_lenient: bool = False,
) -> str:
    """Return the text of a schema with tags added, and then others removed.

    Raises `RegistryError` if the schema has no such place, unless `is_lenient` leaves such places out.
    """
    if not to_add and not to_remove:
        return text
    document = _parsed(kind, text)
    parts = {(path, place.type): place.part for place in document.places() for path in (place.path, place.alias)}
    for is_removal, each in (*((False, added) for added in to_add), *((True, removed) for removed in to_remove)):
        entity = each.schema_entity
        part = parts.get((entity.entity_path.removeprefix("."), entity.entity_type))
        if part is None and not is_lenient:
            raise RegistryError(
                Code.INVALID_SCHEMA, f"The schema has no {entity.entity_type} at path {entity.entity_path!r}"
            )
        if part is not None:
            part.set_tags(_changed(part.tags, each.tags, is_removal=is_removal))
    return document.text()


def _changed(tags: list[str], named: Sequence[str], *, is_removal: bool) -> list[str]:
    if is_removal:
        return [tag for tag in tags if tag not in named]
    return list(dict.fromkeys([*tags, *named]))


def _parsed(kind: SchemaType, text: str) -> _Document:
    return _ProtobufDocument(text) if kind is SchemaType.PROTOBUF else _JsonDocument(kind, text)


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RegistryError(Code.INVALID_SCHEMA, "The schema is not valid JSON, so it cannot have tags") from None


def _protobuf_place(part: TaggedPlace) -> _Place:
    return _Place(part.path, EntityType.FIELD if part.is_field else EntityType.RECORD, part, part.alias)


# --- Avro


def _avro_places(schema: Any, namespace: str) -> Iterator[_Place]:
    if isinstance(schema, list):
        for branch in schema:
            yield from _avro_places(branch, namespace)
    if not isinstance(schema, dict):
        return
    match schema.get("type"):
        case "array":
            yield from _avro_places(schema.get("items"), namespace)
        case "map":
            yield from _avro_places(schema.get("values"), namespace)
        case "record" | "error":
            yield from _avro_record_places(schema, namespace)
        case dict() | list() as inner:
            yield from _avro_places(inner, namespace)


def _avro_record_places(schema: dict[str, Any], namespace: str) -> Iterator[_Place]:
    name = str(schema.get("name"))
    if "." not in name:
        namespace = schema.get("namespace", namespace)
        name = f"{namespace}.{name}" if namespace else name
    yield _Place(name, EntityType.RECORD, _Node(schema))
    for field in schema.get("fields") or ():
        if isinstance(field, dict):
            yield _Place(f"{name}.{field.get('name')}", EntityType.FIELD, _Node(field))
            yield from _avro_places(field.get("type"), name.rpartition(".")[0])


# --- JSON Schema


def _json_places(schema: Any, scope: str, *, is_field: bool) -> Iterator[_Place]:
    if not isinstance(schema, dict):
        return
    for keyword, word in _COMBINATIONS.items():
        branches = schema.get(keyword)
        for index, branch in enumerate(branches if isinstance(branches, list) else ()):
            yield from _json_places(branch, f"{scope}{word}.{index}.", is_field=False)
    if isinstance(schema.get("items"), dict):
        yield from _json_places(schema["items"], f"{scope}array.", is_field=False)
    for keyword in _CONDITIONS:
        yield from _json_places(schema.get(keyword), f"{scope}conditional.{keyword}.", is_field=False)
    yield from _json_places(schema.get("not"), f"{scope}not.", is_field=False)
    if schema.get("type") == "object" or "properties" in schema:
        yield from _json_object_places(schema, f"{scope}object", is_field=is_field)


def _json_object_places(schema: dict[str, Any], path: str, *, is_field: bool) -> Iterator[_Place]:
    if not is_field:
        yield _Place(path, EntityType.RECORD, _Node(schema))
    properties = schema.get("properties")
    for name, node in properties.items() if isinstance(properties, dict) else ():
        if isinstance(node, dict):
            yield _Place(f"{path}.{name}", EntityType.FIELD, _Node(node))
            yield from _json_places(node, f"{path}.{name}.", is_field=True)
    for keyword in _DEFINITIONS:
        definitions = schema.get(keyword)
        for name, node in definitions.items() if isinstance(definitions, dict) else ():
            yield from _json_places(node, f"{path}.{keyword}.{name}.", is_field=False)
