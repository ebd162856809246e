"""The text of a schema: as Avro for Java writes it, which is what Confluent's registry stores, and in normal form."""

from collections.abc import Iterable

from tailrace.records.avro.default import normalized_default
from tailrace.records.avro.json_text import dump, quoted, sorted_keys, utf16_order
from tailrace.records.avro.logical import decimal_of, logical_type_of
from tailrace.records.avro.type import (
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Name,
    Named,
    Primitive,
    Properties,
    Record,
    Type,
    Union,
    Unresolved,
)
from tailrace.schema.language import NESTING_DEPTH_MAX, InvalidSchema

_Part = str | tuple[Type, str | None, int]
"""A piece of finished text; or a type that is still to be written, the namespace around it, and its depth."""


class Writer:
    """A writer of one schema.

    The first use of a named type writes its definition, later ones its name. Types in `known` are written by name
    throughout. The normal form orders what may stand in any order, in all types but those in `foreign`, which the
    schema has from its references and may not change.
    """

    def __init__(self, known: Iterable[str] = (), *, is_normal: bool = False, foreign: Iterable[str] = ()) -> None:
        self._known = set(known)
        self._is_normal = is_normal
        self._foreign = frozenset(foreign)

    def write(self, type_: Type, depth_max: int | None = NESTING_DEPTH_MAX) -> str:
        """Return the text. A stack of its own spares the interpreter's, since named types can refer to one another."""
        text: list[str] = []
        stack: list[_Part] = [(type_, None, 1)]
        while stack:
            part = stack.pop()
            if isinstance(part, str):
                text.append(part)
                continue
            parts = self._parts(*part)
            if depth_max is not None and part[2] > depth_max and parts[0] != parts[-1]:
                raise InvalidSchema(f"Types are nested more than {depth_max} levels deep where they are first used")
            stack.extend(reversed(parts))
        return "".join(text)

    def _parts(self, type_: Type, namespace: str | None, depth: int) -> list[_Part]:
        if isinstance(type_, Union):
            parts: list[_Part] = ["["]
            for index, branch in enumerate(type_.branches):
                parts += [","] * (index > 0)
                parts.append((branch, namespace, depth + 1))
            return [*parts, "]"]
        if isinstance(type_, Named):
            return self._named(type_, namespace, depth)
        properties = _members(self._properties(type_))
        if isinstance(type_, Array):
            return ['{"type":"array","items":', (type_.items, namespace, depth + 1), properties, "}"]
        if isinstance(type_, Map):
            return ['{"type":"map","values":', (type_.values, namespace, depth + 1), properties, "}"]
        kind = quoted(type_.kind)
        return ['{"type":', kind, properties, "}"] if properties else [kind]

    def _named(self, type_: Named, namespace: str | None, depth: int) -> list[_Part]:
        name = type_.name
        if name.full in self._known:
            return [quoted(name.qualified(namespace))]
        self._known.add(name.full)
        is_normal = self._is_normal and name.full not in self._foreign
        kind = "error" if isinstance(type_, Record) and type_.is_error and not is_normal else type_.kind
        parts: list[_Part] = [f'{{"type":"{kind}","name":{quoted(name.simple)}']
        if name.namespace != namespace:
            parts.append(f',"namespace":{quoted(name.namespace or "")}')
        if type_.doc is not None and not (is_normal and type_.doc == ""):
            parts.append(f',"doc":{quoted(type_.doc)}')
        if isinstance(type_, Enum):
            parts.append(f',"symbols":[{",".join(map(quoted, type_.symbols))}]')
            if type_.default is not None:
                parts.append(f',"default":{quoted(type_.default)}')
        elif isinstance(type_, Fixed):
            parts.append(f',"size":{type_.size}')
        else:
            parts.append(',"fields":[')
            for index, field in enumerate(type_.fields):
                parts += _field(field, index, name.namespace, depth, is_normal=is_normal)
            parts.append("]")
        parts.append(_members(self._properties(type_)))
        aliases = _sorted_aliases(type_) if is_normal else type_.aliases
        parts.append(_aliases(alias.qualified(name.namespace) for alias in aliases))
        return [*parts, "}"]

    def _properties(self, type_: Primitive | Array | Map | Named | Unresolved) -> Properties:
        """Return the properties in the order in which they are written."""
        properties = type_.properties
        if not properties:
            return properties
        if self._is_normal and not (isinstance(type_, Named) and type_.name.full in self._foreign):
            return {**_logical_properties(type_), **_normalized(properties)}
        if isinstance(type_, (Record, Array)) and (logical_type := logical_type_of(type_)):
            # Avro for Java copies records and arrays when it resolves names, beginning with the logical type.
            return {"logicalType": logical_type, **properties}
        return properties


def _field(field: Field, index: int, namespace: str | None, depth: int, *, is_normal: bool) -> list[_Part]:
    parts: list[_Part] = [
        f'{"," * (index > 0)}{{"name":{quoted(field.name)},"type":',
        (field.type, namespace, depth + 1),
    ]
    if field.doc is not None:
        parts.append(f',"doc":{quoted(field.doc)}')
    if field.has_default:
        value = normalized_default(field.type, field.default) if is_normal else field.default
        parts.append(f',"default":{dump(value)}')
    if field.order != "ascending":
        parts.append(f',"order":"{field.order}"')
    parts.append(_aliases(sorted(field.aliases, key=utf16_order) if is_normal else field.aliases))
    parts.append(_members(_normalized(field.properties) if is_normal else field.properties))
    return [*parts, "}"]


def _aliases(aliases: Iterable[str]) -> str:
    written = ",".join(map(quoted, aliases))
    return f',"aliases":[{written}]' if written else ""


def _sorted_aliases(type_: Named) -> list[Name]:
    def order(alias: Name) -> bytes:
        is_outside = alias.namespace is None and type_.name.namespace is not None
        return utf16_order(f".{alias.simple}" if is_outside else alias.full)

    return sorted(type_.aliases, key=order)


def _logical_properties(type_: Type) -> Properties:
    """Return the properties of a valid logical type, which the normal form writes first."""
    name = logical_type_of(type_)
    if name is None:
        return {}
    decimal = decimal_of(type_)
    if decimal is None:
        return {"logicalType": name}
    scale: Properties = {"scale": decimal.scale} if decimal.scale else {}
    return {"logicalType": name, "precision": decimal.precision, **scale}


def _normalized(properties: Properties) -> Properties:
    return {key: sorted_keys(properties[key]) for key in sorted(properties, key=utf16_order)}


def _members(properties: Properties) -> str:
    return "".join([f",{quoted(key)}:{dump(value)}" for key, value in properties.items()])
