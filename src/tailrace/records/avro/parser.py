"""Parsing of Avro schemas by the rules of Avro 1.12 for Java, with what Confluent's registry sets.

A name may be used before it is defined, within one text. A text that defines a name again must define the same type.
"""

import re
from collections.abc import Callable, Mapping

from tailrace.base.schema_limits import SCHEMA_NESTING_DEPTH_MAX
from tailrace.base.sentinel import INT32_MAX
from tailrace.records.avro.default import number_of, validate_defaults
from tailrace.records.avro.json_text import dump, is_deeper_than, load, sorted_keys
from tailrace.records.avro.type import (
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    InvalidAvroSchema,
    Json,
    Map,
    Name,
    Named,
    Primitive,
    Properties,
    Record,
    Type,
    Union,
    Unresolved,
    name_of,
)

_RESERVED = frozenset(("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"))
_ENUM_RESERVED = _RESERVED | {"default"}
_FIELD_RESERVED = frozenset(("default", "doc", "name", "order", "type", "aliases"))
_ORDERS = ("ascending", "descending", "ignore")
_FIXED_SIZE_MAX = INT32_MAX - 8
_TOKENS_SHOWN_MAX = 12
_STRICT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = {kind: Primitive(kind) for kind in PRIMITIVES}

Object = dict[str, Json]


class Parser:
    """A parser that remembers the named types of every text that it has parsed."""

    def __init__(self, *, is_new: bool) -> None:
        """Validate names strictly, and defaults, only if the schema is new: older registries let others pass."""
        self.named: dict[str, Named] = {}
        self._is_new = is_new
        self._depth = 0
        self._tokens: list[str] = []
        self._records: list[Record] = []
        self._incomplete: list[Field | Array | Map | Union] = []
        self._of_kind: Mapping[str, Callable[[Object, str | None], Type]] = {
            "record": self._record,
            "error": self._record,
            "enum": self._enum,
            "fixed": self._fixed,
            "array": self._array,
            "map": self._map,
        }

    def parse(self, text: str) -> Type:
        """Return the type that a text describes."""
        self._records, self._incomplete, self._tokens = [], [], []
        type_ = self._type(load(text), None)
        for holder in self._incomplete:
            self._complete(holder)
        type_ = self._resolved(type_)
        if self._is_new:
            validate_defaults(self._records)
        return type_

    # Types

    def _type(self, node: Json, namespace: str | None) -> Type:
        if isinstance(node, str):
            return self._find(node, namespace)
        self._depth += 1
        if self._depth > SCHEMA_NESTING_DEPTH_MAX:
            raise self._error(f"types are nested more than {SCHEMA_NESTING_DEPTH_MAX} levels deep")
        if isinstance(node, list):
            type_: Type = self._union(node, namespace)
        elif isinstance(node, dict):
            type_ = self._object(node, namespace)
        else:
            raise self._error(f"a type is a name, an object or an array, not {_shown(node)}")
        self._depth -= 1
        return type_

    def _object(self, node: Object, namespace: str | None) -> Type:
        kind = node.get("type")
        if not isinstance(kind, str):
            raise self._error('the attribute "type" has to be a string')
        if kind in _PLAIN:
            properties = self._properties(node, _RESERVED)
            return Primitive(kind, properties) if properties else _PLAIN[kind]
        parse = self._of_kind.get(kind)
        return parse(node, namespace) if parse else self._find(kind, namespace)

    def _record(self, node: Object, namespace: str | None) -> Named:
        name = self._name(node, namespace)
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise self._error(f"record '{name.full}' has no array \"fields\"")
        record = Record(name, _text(node, "doc"), node["type"] == "error", [])
        self._tokens.append("fields")
        known: set[str] = set()
        for index, node_of_field in enumerate(fields):
            self._tokens.append(str(index))
            field = self._field(record, node_of_field)
            if field.name in known:
                raise self._error(f"record '{name.full}' has two fields '{field.name}'")
            known.add(field.name)
            record.fields.append(field)
            self._tokens.pop()
        self._tokens.pop()
        record.properties = self._properties(node, _RESERVED)
        record.aliases = self._type_aliases(node, name)
        return self._define(record)

    def _field(self, record: Record, node: Json) -> Field:
        if not isinstance(node, dict) or not isinstance(name := node.get("name"), str):
            raise self._error(f"a field of record '{record.name.full}' has no name")
        self._check_name(name, f"field of record '{record.name.full}'")
        if "type" not in node:
            raise self._error(f"field '{name}' of record '{record.name.full}' has no type")
        self._tokens.append("type")
        type_ = self._type(node["type"], record.name.namespace)
        self._tokens.pop()
        order = node.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise self._error(f"the order of field '{name}' has to be one of {', '.join(_ORDERS)}")
        value = node.get("default")
        self._check_depth(value)
        if isinstance(value, str) and type_.kind in ("float", "double") and (value := number_of(value)) is None:
            raise self._error(f"the default of field '{name}' is not a number")
        field = Field(
            name=name,
            type=type_,
            doc=_text(node, "doc"),
            has_default="default" in node,
            default=value,
            order=order.lower(),
            aliases=self._aliases(node),
            properties=self._properties(node, _FIELD_RESERVED),
        )
        self._remember(field, type_)
        return field

    def _enum(self, node: Object, namespace: str | None) -> Named:
        name = self._name(node, namespace)
        symbols = node.get("symbols")
        if not isinstance(symbols, list):
            raise self._error(f"enum '{name.full}' has no array \"symbols\"")
        known: dict[str, None] = {}
        for symbol in symbols:
            if not isinstance(symbol, str):
                raise self._error(f"a symbol of enum '{name.full}' is not a string: {_shown(symbol)}")
            self._check_name(symbol, f"symbol of enum '{name.full}'")
            if symbol in known:
                raise self._error(f"enum '{name.full}' has the symbol '{symbol}' twice")
            known[symbol] = None
        default_symbol = _text(node, "default")
        if default_symbol is not None and default_symbol not in known:
            raise self._error(f"the default '{default_symbol}' of enum '{name.full}' is not one of its symbols")
        enum = Enum(name, _text(node, "doc"), tuple(known), default_symbol)
        enum.properties = self._properties(node, _ENUM_RESERVED)
        enum.aliases = self._type_aliases(node, name)
        return self._define(enum)

    def _fixed(self, node: Object, namespace: str | None) -> Named:
        name = self._name(node, namespace)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _FIXED_SIZE_MAX:
            raise self._error(f"fixed '{name.full}' has no valid size: {_shown(size)}")
        fixed = Fixed(name, _text(node, "doc"), size)
        fixed.properties = self._properties(node, _RESERVED)
        fixed.aliases = self._type_aliases(node, name)
        return self._define(fixed)

    def _array(self, node: Object, namespace: str | None) -> Array:
        array = Array(self._inner(node, "items", namespace), self._properties(node, _RESERVED))
        self._remember(array, array.items)
        return array

    def _map(self, node: Object, namespace: str | None) -> Map:
        map_ = Map(self._inner(node, "values", namespace), self._properties(node, _RESERVED))
        self._remember(map_, map_.values)
        return map_

    def _inner(self, node: Object, key: str, namespace: str | None) -> Type:
        if key not in node:
            raise self._error(f'{node["type"]} has no attribute "{key}"')
        self._tokens.append(key)
        type_ = self._type(node[key], namespace)
        self._tokens.pop()
        return type_

    def _union(self, nodes: list[Json], namespace: str | None) -> Union:
        union = Union([])
        for index, node in enumerate(nodes):
            self._tokens.append(str(index))
            union.branches.append(self._type(node, namespace))
            self._tokens.pop()
        if any(isinstance(branch, Unresolved) for branch in union.branches):
            self._incomplete.append(union)
        self._check_branches(union, self._place())
        return union

    def _check_branches(self, union: Union, place: str) -> None:
        known: set[str] = set()
        for branch in union.branches:
            if isinstance(branch, Unresolved):
                continue
            if isinstance(branch, Union):
                raise InvalidAvroSchema(f"{place}: a union cannot directly contain another union")
            name = name_of(branch)
            if name in known:
                raise InvalidAvroSchema(f"{place}: the union contains '{name}' twice")
            known.add(name)

    # Names

    def _name(self, node: Object, namespace: str | None) -> Name:
        written = node.get("name")
        if not isinstance(written, str):
            raise self._error(f"{node['type']} has no name")
        space = _text(node, "namespace")
        name = Name.of(written, namespace if space is None else space)
        self._check_name(name.simple, str(node["type"]))
        if name.full in _PLAIN:
            raise self._error(f"a {node['type']} cannot be named '{name.full}', as a primitive type is")
        return name

    def _check_name(self, name: str, what: str) -> None:
        if not (_STRICT_NAME.fullmatch(name) if self._is_new else _is_unicode_name(name)):
            raise self._error(f"'{name}' is not a valid name of a {what}: use letters, digits and '_', no digit first")

    def _define(self, type_: Named) -> Named:
        """Add the type to the known names. A name that is defined again must mean the same; the first type is used."""
        if self._is_new and type_.name.namespace is not None:
            for part in type_.name.namespace.split("."):
                self._check_name(part, f"namespace part of {type_.kind} '{type_.name.full}'")
        first = self.named.setdefault(type_.name.full, type_)
        if first is type_:
            if isinstance(type_, Record):
                self._records.append(type_)
        elif not _is_same(first, type_):
            raise self._error(f"'{type_.name.full}' is already defined as another type")
        return first

    def _find(self, name: str, namespace: str | None) -> Type:
        """Return the type with that name in the namespace, or else without a namespace."""
        if name in _PLAIN:
            return _PLAIN[name]
        full = f"{namespace}.{name}" if namespace is not None and "." not in name else name
        return self.named.get(full) or self.named.get(name) or Unresolved(full, self._place())

    def _remember(self, holder: Field | Array | Map, type_: Type) -> None:
        if isinstance(type_, Unresolved):
            self._incomplete.append(holder)

    def _complete(self, holder: Field | Array | Map | Union) -> None:
        """Replace names that were used before they were defined."""
        if isinstance(holder, Array):
            holder.items = self._resolved(holder.items)
        elif isinstance(holder, Map):
            holder.values = self._resolved(holder.values)
        elif isinstance(holder, Field):
            holder.type = self._resolved(holder.type)
        else:
            place = next(branch.place for branch in holder.branches if isinstance(branch, Unresolved))
            holder.branches = [self._resolved(branch) for branch in holder.branches]
            self._check_branches(holder, place)

    def _resolved(self, type_: Type) -> Type:
        if not isinstance(type_, Unresolved):
            return type_
        if type_.full not in self.named:
            raise InvalidAvroSchema(
                f"{type_.place}: neither the schema nor its references define a type '{type_.full}'"
            )
        return self.named[type_.full]

    # Attributes

    def _properties(self, node: Object, reserved: frozenset[str]) -> Properties:
        if node.keys() <= reserved:
            return {}
        properties = {key: value for key, value in node.items() if key not in reserved}
        self._check_depth(properties)
        return properties

    def _check_depth(self, value: Json) -> None:
        if isinstance(value, (dict, list)) and is_deeper_than(value, SCHEMA_NESTING_DEPTH_MAX):
            raise self._error(f"a value is nested more than {SCHEMA_NESTING_DEPTH_MAX} levels deep")

    def _aliases(self, node: Object) -> tuple[str, ...]:
        if "aliases" not in node:
            return ()
        aliases = node["aliases"]
        if not isinstance(aliases, list):
            raise self._error('"aliases" has to be an array')
        known: dict[str, None] = {}
        for alias in aliases:
            if not isinstance(alias, str):
                raise self._error(f"an alias is not a string: {_shown(alias)}")
            known[alias] = None
        return tuple(known)

    def _type_aliases(self, node: Object, name: Name) -> tuple[Name, ...]:
        aliases = dict.fromkeys(Name.of(alias, name.namespace) for alias in self._aliases(node))
        if self._is_new:
            for alias in aliases:
                self._check_name(alias.simple, f"alias of '{name.full}'")
        return tuple(aliases)

    # Errors

    def _place(self) -> str:
        """Return where the parser is, as a JSON pointer. Of a long one, only the end helps."""
        tokens = self._tokens
        return "/" + "/".join(tokens if len(tokens) <= _TOKENS_SHOWN_MAX else ["…", *tokens[-_TOKENS_SHOWN_MAX:]])

    def _error(self, message: str) -> InvalidAvroSchema:
        return InvalidAvroSchema(f"{self._place()}: {message}")


def _text(node: Object, key: str) -> str | None:
    value = node.get(key)
    return value if isinstance(value, str) else None


def _shown(value: Json) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:100]}"


def _is_unicode_name(name: str) -> bool:
    """Return whether a name is valid for Avro libraries that allow letters of all languages."""
    return (
        name != ""
        and (name[0] == "_" or name[0].isalpha())
        and all(character == "_" or character.isalpha() or character.isdecimal() for character in name)
        and max(name) <= "\uffff"
    )


def _is_same(one: Type, other: Type) -> bool:
    """Compare two definitions as Avro for Java does: documentation and aliases do not count."""
    if one is other:
        return True
    if type(one) is not type(other) or one.kind != other.kind:
        return False
    if isinstance(one, Union) and isinstance(other, Union):
        return len(one.branches) == len(other.branches) and all(map(_is_same, one.branches, other.branches))
    if isinstance(one, (Unresolved, Union)) or isinstance(other, (Unresolved, Union)):
        return False
    if not _has_same_json(one.properties, other.properties):
        return False
    if isinstance(one, Array) and isinstance(other, Array):
        return _is_same(one.items, other.items)
    if isinstance(one, Map) and isinstance(other, Map):
        return _is_same(one.values, other.values)
    if isinstance(one, Record) and isinstance(other, Record):
        return (
            one.name == other.name
            and len(one.fields) == len(other.fields)
            and all(map(_is_same_field, one.fields, other.fields))
        )
    if isinstance(one, Enum) and isinstance(other, Enum):
        return one.name == other.name and one.symbols == other.symbols
    if isinstance(one, Fixed) and isinstance(other, Fixed):
        return one.name == other.name and one.size == other.size
    return True


def _is_same_field(one: Field, other: Field) -> bool:
    return (
        (one.name, one.order, one.has_default) == (other.name, other.order, other.has_default)
        and _has_same_json(one.default, other.default)
        and _has_same_json(one.properties, other.properties)
        and _is_same(one.type, other.type)
    )


def _has_same_json(one: Json, other: Json) -> bool:
    return dump(sorted_keys(one)) == dump(sorted_keys(other))
