"""Defaults of Avro fields as Python values.

fastavro takes the default of a field as it stands in the JSON of the schema, where bytes are text. So each default is
replaced by the value that the schema means before fastavro gets to see it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from tailrace.records.avro.default import fits
from tailrace.records.avro.logical import logical_type_of
from tailrace.records.avro.type import Array, Fixed, Json, Map, Named, Record, Type, Union, name_of
from tailrace.schema.avro.schema import AvroSchema

_Finish = Callable[[Type, Any], Any]


def prepare_for_writing(schema: AvroSchema) -> Any:
    """Return a schema as fastavro compiles it, with defaults that it can write."""
    return _prepare(schema, lambda type_, default: _value(type_, default, lambda _type, value: value, tagged))


def prepare_for_reading(schema: AvroSchema) -> Any:
    """Return a schema as fastavro compiles it, with defaults as it reads values of their types."""
    return _prepare(schema, lambda type_, default: _value(type_, default, _logical, lambda _branch, value: value))


def tagged(branch: Type, value: Any) -> Any:
    """Tell fastavro which branch of a union is meant, if it has a name."""
    return (name_of(branch), value) if isinstance(branch, Named) else value


def _prepare(schema: AvroSchema, convert: Callable[[Type, Json], Any]) -> Any:
    import fastavro

    named: dict[str, Any] = {}
    prepared = fastavro.parse_schema(json.loads(schema.formatted("resolved")), named_schemas=named)
    for record in _records(schema.root):
        fields = {each["name"]: each for each in named[record.name.full]["fields"]}
        for field in record.fields:
            if field.has_default and fits(field.type, field.default):
                # A stored schema may have a default without an end, or a text that is not the UUID it should be.
                with suppress(RecursionError, ValueError, OverflowError):
                    fields[field.name]["default"] = convert(field.type, field.default)
    return prepared


def _records(root: Type) -> Iterator[Record]:
    """Yield each record of a schema once."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        type_ = waiting.pop()
        if id(type_) in seen:
            continue
        seen.add(id(type_))
        if isinstance(type_, Record):
            yield type_
            waiting += [field.type for field in type_.fields]
        elif isinstance(type_, Union):
            waiting += type_.branches
        elif isinstance(type_, Array | Map):
            waiting.append(type_.items if isinstance(type_, Array) else type_.values)


def _value(type_: Type, default: Any, scalar: _Finish, branch: _Finish) -> Any:
    """Return the value of a default. The default of a union belongs to the first branch that it fits."""
    if isinstance(type_, Union):
        chosen = next((each for each in type_.branches if fits(each, default)), type_.branches[0])
        return branch(chosen, _value(chosen, default, scalar, branch))
    if isinstance(type_, Record):
        members = {each.name: default.get(each.name, each.default) for each in type_.fields}
        return {each.name: _value(each.type, members[each.name], scalar, branch) for each in type_.fields}
    if isinstance(type_, Array):
        return [_value(type_.items, each, scalar, branch) for each in default]
    if isinstance(type_, Map):
        return {name: _value(type_.values, each, scalar, branch) for name, each in default.items()}
    if type_.kind == "bytes" or isinstance(type_, Fixed):
        default = default.encode("latin-1")  # a character is a byte, as the specification says
    return scalar(type_, default)


def _logical(type_: Type, value: Any) -> Any:
    """Return the value of a logical type, such as a decimal or a date."""
    from fastavro.read import LOGICAL_READERS

    read = LOGICAL_READERS.get(f"{type_.kind}-{logical_type_of(type_)}")
    return value if read is None or isinstance(type_, Union) else read(value, type_.properties, None)
