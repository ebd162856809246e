"""Changes of objects and arrays.

A content model is open if values may hold any property or item that the schema does not describe, closed if they may
hold none, and partially open if a schema describes those as well. A property may be taken away if the reader's model
is open or covers it, and added if the writer's model did not allow other values in its place.
"""

from collections.abc import Generator

from tailrace.schema.json_schema.change import Change, Changes, Comparing, Step, between
from tailrace.schema.json_schema.node import AnyValue, ArrayValue, Node, NoValue, ObjectValue
from tailrace.schema.json_schema.pattern import covers
from tailrace.schema.json_schema.scalar import lowered, raised

NAME_CHARACTERS_PER_COMPARISON = 100
"""Matching a pattern with the name of a property counts as one comparison, and one more for so many characters."""


def object_changes(writer: ObjectValue, reader: ObjectValue) -> Comparing:
    """Compare two objects."""
    changes = [_required(name, writer, reader) for name in writer.properties if name in reader.properties]
    found = [change for change in changes if change is not None]
    for name in dict.fromkeys([*reader.properties, *writer.properties]):
        place = ("properties", name)
        if name not in reader.properties:
            found += yield from _property_removed(name, writer, reader)
        elif name not in writer.properties:
            found += yield from _property_added(name, writer, reader)
        else:
            found += yield from between(writer.properties[name], reader.properties[name], *place)
    found += yield from _dependency_changes(writer, reader)
    found += yield from _rest_changes("additionalProperties", "ADDITIONAL_PROPERTIES", writer, reader)
    found += yield from _unevaluated_changes("unevaluatedProperties", "UNEVALUATED_PROPERTIES", writer, reader)
    found += lowered("maxProperties", "MAX_PROPERTIES", writer.properties_max, reader.properties_max)
    found += raised("minProperties", "MIN_PROPERTIES", writer.properties_min, reader.properties_min)
    return found


def _required(name: str, writer: ObjectValue, reader: ObjectValue) -> Change | None:
    if name not in reader.required or name in writer.required or reader.properties[name].has_default:
        return None
    return Change("REQUIRED_ATTRIBUTE_ADDED", ("required", (name, None)))


def _property_removed(name: str, writer: ObjectValue, reader: ObjectValue) -> Comparing:
    place = ("properties", name)
    if reader.is_open():
        return []
    covering = yield from _covering(name, reader)
    if covering is not None:
        changes = yield from between(writer.properties[name], covering, *place)
        if changes:
            kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            changes.append(Change(kind).inside(*place))
        return changes
    if isinstance(writer.properties[name], NoValue):
        return []
    return [Change("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL").inside(*place)]


def _property_added(name: str, writer: ObjectValue, reader: ObjectValue) -> Comparing:
    place, added = ("properties", name), reader.properties[name]
    is_required = name in reader.required
    if writer.is_open():
        if isinstance(added, AnyValue):
            return []
        if not is_required:
            kind = "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
        elif added.has_default:
            kind = "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL"
        else:
            kind = "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
        return [Change(kind).inside(*place)]
    changes: Changes = []
    covering = yield from _covering(name, writer)
    if covering is not None:
        changes = yield from between(covering, added, *place)
        if changes:
            changes.append(Change("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL").inside(*place))
    if is_required and not added.has_default:
        changes.append(Change("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL").inside(*place))
    return changes


def _covering(name: str, model: ObjectValue) -> Generator[Step, Changes, Node | None]:
    """Return the schema that a partially open model has for a property that it does not name."""
    for expression, schema in model.patterns.items():
        yield 1 + len(name) // NAME_CHARACTERS_PER_COMPARISON
        if covers(expression, name):
            return schema
    return _covering_rest(model)


def _covering_rest(model: ObjectValue | ArrayValue) -> Node | None:
    if isinstance(model.additional, Node):
        return model.additional
    if model.additional is None and not isinstance(model.unevaluated, AnyValue | NoValue):
        return model.unevaluated
    return None


def _dependency_changes(writer: ObjectValue, reader: ObjectValue) -> Comparing:
    changes: Changes = []
    for name, needs in reader.required_with.items():
        before = writer.required_with.get(name)
        if before is None:
            kind = "DEPENDENCY_ARRAY_ADDED"
        elif needs <= before:
            continue
        else:
            kind = "DEPENDENCY_ARRAY_EXTENDED" if needs > before else "DEPENDENCY_ARRAY_CHANGED"
        path = ("dependencies", (name, None))
        changes.append(Change(kind, path, None, sorted(needs - (before or frozenset()))))
    for name, schema in reader.schemas_with.items():
        if name not in writer.schemas_with:
            changes.append(Change("DEPENDENCY_SCHEMA_ADDED", ("dependencies", (name, None))))
        else:
            changes += yield from between(writer.schemas_with[name], schema, "dependencies", name)
    return changes


def _rest_changes(
    keyword: str, kind: str, writer: ObjectValue | ArrayValue, reader: ObjectValue | ArrayValue
) -> Comparing:
    """Compare what two schemas say of properties or items that they do not describe one by one."""
    if reader.additional is False:
        return [] if writer.additional is False else [Change(f"{kind}_REMOVED", (keyword, None))]
    if reader.additional is None or writer.additional is False:
        return []
    if writer.additional is None:
        return [Change(f"{kind}_NARROWED", (keyword, None))]
    return (yield from between(writer.additional, reader.additional, keyword))


def _unevaluated_changes(
    keyword: str, kind: str, writer: ObjectValue | ArrayValue, reader: ObjectValue | ArrayValue
) -> Comparing:
    before, after = writer.unevaluated, reader.unevaluated
    if after is None or isinstance(before, NoValue):
        return []
    if isinstance(after, NoValue):
        return [Change(f"{kind}_REMOVED", (keyword, None))]
    if before is None or (isinstance(before, AnyValue) and not isinstance(after, AnyValue)):
        return [Change(f"{kind}_NARROWED", (keyword, None))]
    return (yield from between(before, after, keyword))


def array_changes(writer: ArrayValue, reader: ArrayValue) -> Comparing:
    """Compare two arrays."""
    changes = yield from between(writer.items, reader.items, "items")
    for index in range(max(len(writer.prefix), len(reader.prefix))):
        place = f"items/{index}"
        if index >= len(reader.prefix):
            changes += yield from _item_removed(writer.prefix[index], reader, place)
        elif index >= len(writer.prefix):
            changes += yield from _item_added(reader.prefix[index], writer, place)
        else:
            changes += yield from between(writer.prefix[index], reader.prefix[index], place)
    changes += yield from _rest_changes("additionalItems", "ADDITIONAL_ITEMS", writer, reader)
    changes += yield from _unevaluated_changes("unevaluatedItems", "UNEVALUATED_ITEMS", writer, reader)
    changes += lowered("maxItems", "MAX_ITEMS", writer.items_max, reader.items_max)
    changes += raised("minItems", "MIN_ITEMS", writer.items_min, reader.items_min)
    if reader.is_unique and not writer.is_unique:
        changes.append(Change("UNIQUE_ITEMS_ADDED", ("uniqueItems", None)))
    changes += lowered("maxContains", "MAX_CONTAINS", writer.contains_max, reader.contains_max)
    changes += raised("minContains", "MIN_CONTAINS", writer.contains_min, reader.contains_min)
    return changes


def _item_removed(item: Node, reader: ArrayValue, place: str) -> Comparing:
    if reader.is_open():
        return []
    covering = _covering_rest(reader)
    if covering is not None:
        changes = yield from between(item, covering, place)
        if changes:
            changes.append(Change("ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", (place, None)))
        return changes
    return [] if isinstance(item, NoValue) else [Change("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", (place, None))]


def _item_added(item: Node, writer: ArrayValue, place: str) -> Comparing:
    if writer.is_open():
        return [] if isinstance(item, AnyValue) else [Change("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", (place, None))]
    covering = _covering_rest(writer)
    if covering is None:
        return []
    changes = yield from between(covering, item, place)
    if changes:
        changes.append(Change("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", (place, None)))
    return changes
