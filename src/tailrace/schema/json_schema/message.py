"""Sentences that say which property breaks what."""

from tailrace.schema.json_schema.change import Change
from tailrace.schema.json_schema.change import Path as ChangePath
from tailrace.schema.json_schema.document import Json, sort_key
from tailrace.schema.json_schema.node import (
    AnyValue,
    ArrayValue,
    BooleanValue,
    Combination,
    Condition,
    ConstValue,
    EnumValue,
    Negation,
    Node,
    NoValue,
    NullValue,
    NumberValue,
    ObjectValue,
    StringValue,
)
from tailrace.schema.language import Difference

SHOWN_CHARACTERS_MAX = 100

SENTENCES = {
    "ADDITIONAL_ITEMS_NARROWED": "{place}: the reader limits additional items to a schema; the writer allowed any",
    "ADDITIONAL_ITEMS_REMOVED": "{place}: the reader allows no additional items; the writer did",
    "ADDITIONAL_PROPERTIES_NARROWED": (
        "{place}: the reader limits additional properties to a schema; the writer allowed any"
    ),
    "ADDITIONAL_PROPERTIES_REMOVED": "{place}: the reader allows no additional properties; the writer did",
    "COMBINED_TYPE_CHANGED": "{place}: '{writer}' became '{reader}', which allows fewer values",
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": "{place}: the alternatives changed in a way that the reader cannot read",
    "DEPENDENCY_ARRAY_ADDED": "{place}: the reader requires {reader} beside it; the writer required nothing",
    "DEPENDENCY_ARRAY_CHANGED": "{place}: the reader requires {reader} beside it, which the writer did not require",
    "DEPENDENCY_ARRAY_EXTENDED": "{place}: the reader requires {reader} beside it, which the writer did not require",
    "DEPENDENCY_SCHEMA_ADDED": "{place}: the reader has a schema for objects with it; the writer has none",
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "{place}: the writer's schema of additional items allows values that the reader's item does not"
    ),
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": "{place}: the reader describes an item that the writer may have filled freely",
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": "{place}: the writer has an item that the reader does not allow",
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "{place}: the reader's schema of additional items does not allow all values of the writer's item"
    ),
    "NOT_TYPE_EXTENDED": "{place}: the reader excludes values that the writer did not exclude",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": (
        "{place}: the reader added it, but the writer's open content model allowed any value there"
    ),
    "PRODUCT_TYPE_EXTENDED": "{place}: the number of schemas in 'allOf' grew from {writer} to {reader}",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "{place}: the reader added it, but the writer's schema of additional properties allowed other values there"
    ),
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": "{place}: the reader removed it and allows no additional properties",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "{place}: the reader removed it, and its schema of additional properties does not allow all its values"
    ),
    "REQUIRED_ATTRIBUTE_ADDED": "{place}: the reader requires it without a default; the writer did not require it",
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": (
        "{place}: the reader added it as required without a default; the writer's values may lack it"
    ),
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": (
        "{place}: the reader added it as required without a default; the writer's values lack it"
    ),
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": (
        "{place}: the reader added it, but the writer's open content model allowed any value there"
    ),
    "SCHEMA_ADDED": "{place}: the reader has a schema where the writer allowed any value",
    "SUM_TYPE_NARROWED": "{place}: the number of alternatives fell from {writer} to {reader}",
    "TYPE_CHANGED": "{place}: the type changed from {writer} to {reader}",
    "TYPE_NARROWED": "{place}: the type was narrowed from {writer} to {reader}",
    "UNEVALUATED_ITEMS_NARROWED": "{place}: the reader limits unevaluated items to a schema; the writer allowed others",
    "UNEVALUATED_ITEMS_REMOVED": "{place}: the reader allows no unevaluated items; the writer did",
    "UNEVALUATED_PROPERTIES_NARROWED": (
        "{place}: the reader limits unevaluated properties to a schema; the writer allowed others"
    ),
    "UNEVALUATED_PROPERTIES_REMOVED": "{place}: the reader allows no unevaluated properties; the writer did",
    "UNIQUE_ITEMS_ADDED": "{place}: the reader requires unique items; the writer did not",
    "ENUM_ARRAY_CHANGED": "{place}: the reader does not know {writer}, which the writer allowed",
    "ENUM_ARRAY_NARROWED": "{place}: the reader does not know {writer}, which the writer allowed",
}
BOUNDS = {
    "ADDED": "{place}: the reader has {keyword} {reader}; the writer had none",
    "CHANGED": "{place}: {keyword} changed from {writer} to {reader}",
    "DECREASED": "{place}: {keyword} was lowered from {writer} to {reader}",
    "EXPANDED": "{place}: {keyword} was raised from {writer} to {reader}",
    "INCREASED": "{place}: {keyword} was raised from {writer} to {reader}",
}
"""Sentences for the bounds of all types, whose kinds end alike."""

TYPE_NAMES: dict[type[Node], str] = {
    AnyValue: "any value",
    ArrayValue: "array",
    BooleanValue: "boolean",
    Condition: "a condition",
    ConstValue: "a constant",
    EnumValue: "an enum",
    Negation: "'not'",
    NoValue: "no value",
    NullValue: "null",
    ObjectValue: "object",
    StringValue: "string",
}


def difference(change: Change) -> Difference:
    """Return a change as the registry reports it."""
    segments = _segments(change.path)
    sentence = SENTENCES.get(change.kind) or BOUNDS[change.kind.rpartition("_")[2]]
    message = sentence.format(
        place=_place(segments),
        keyword=segments[-1] if segments else "",
        writer=_said(change.writer),
        reader=_said(change.reader),
    )
    return Difference(change.kind, "#/" + "/".join(segments), message)


def _segments(path: ChangePath) -> list[str]:
    segments = []
    while path is not None:
        segment, path = path
        segments.append(segment)
    return segments


def _place(segments: list[str]) -> str:
    """Name the property that a path leads to, such as: property 'order.lines[].price'."""
    names: list[str] = []
    rest = iter(segments)
    for segment in rest:
        if segment in ("properties", "required", "dependencies"):
            names.append("." + next(rest, ""))
        elif segment == "items":
            names.append("[]")
        elif segment.startswith("items/"):
            names.append(f"[{segment.removeprefix('items/')}]")
        elif segment in ("additionalProperties", "unevaluatedProperties") and names is not None:
            names.append(".*")
        elif segment in ("additionalItems", "unevaluatedItems"):
            names.append("[…]")
    name = "".join(names).removeprefix(".")
    return f"property '{name}'" if name else "the schema"


def _said(value: Json | Node) -> str:
    if isinstance(value, NumberValue):
        return "integer" if value.is_integer else "number"
    if isinstance(value, Combination):
        return "a combination" if value.is_one_schema else f"'{value.criterion}'"
    if isinstance(value, Node):
        return TYPE_NAMES[type(value)]
    if isinstance(value, list):
        shown = ", ".join(sort_key(each) for each in value[:5]) + (", …" if len(value) > 5 else "")
    else:
        shown = value if isinstance(value, str) else sort_key(value)
    return shown if len(shown) <= SHOWN_CHARACTERS_MAX else shown[:SHOWN_CHARACTERS_MAX] + "…"
