"""Cases of compatibility: arrays and tuples."""

from tests.unit.schema.json_schema.case import BOOLEAN, INTEGER, MODERN, NUMBER, STRING, Case

CASES = [
    Case(
        "items get a schema",
        old={"type": "array"},
        new={"type": "array", "items": STRING},
        backward=["SCHEMA_ADDED #/items"],
    ),
    Case(
        "the schema of items becomes wider",
        old={"type": "array", "items": INTEGER},
        new={"type": "array", "items": NUMBER},
        forward=["TYPE_NARROWED #/items"],
    ),
    Case(
        "the type of items changes",
        old={"type": "array", "items": STRING},
        new={"type": "array", "items": INTEGER},
        backward=["TYPE_CHANGED #/items"],
        forward=["TYPE_CHANGED #/items"],
    ),
    Case(
        "a nested property of items changes",
        old={"type": "array", "items": {"type": "object", "properties": {"a": STRING}}},
        new={"type": "array", "items": {"type": "object", "properties": {"a": INTEGER}}},
        backward=["TYPE_CHANGED #/items/properties/a"],
        forward=["TYPE_CHANGED #/items/properties/a"],
    ),
    Case(
        "maxItems is added",
        old={"type": "array", "items": STRING},
        new={"type": "array", "items": STRING, "maxItems": 3},
        backward=["MAX_ITEMS_ADDED #/maxItems"],
    ),
    Case(
        "maxItems is lowered",
        old={"type": "array", "maxItems": 3},
        new={"type": "array", "maxItems": 2},
        backward=["MAX_ITEMS_DECREASED #/maxItems"],
    ),
    Case(
        "minItems is added",
        old={"type": "array", "items": STRING},
        new={"type": "array", "items": STRING, "minItems": 1},
        backward=["MIN_ITEMS_ADDED #/minItems"],
    ),
    Case(
        "minItems is raised",
        old={"type": "array", "minItems": 1},
        new={"type": "array", "minItems": 2},
        backward=["MIN_ITEMS_INCREASED #/minItems"],
    ),
    Case(
        "items become unique",
        old={"type": "array", "items": STRING},
        new={"type": "array", "items": STRING, "uniqueItems": True},
        backward=["UNIQUE_ITEMS_ADDED #/uniqueItems"],
    ),
    Case(
        "an item is added to an open tuple",
        old={"type": "array", "items": [STRING]},
        new={"type": "array", "items": [STRING, INTEGER]},
        backward=["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"],
    ),
    Case(
        "an item that takes any value is added to an open tuple",
        old={"type": "array", "items": [STRING]},
        new={"type": "array", "items": [STRING, {}]},
    ),
    Case(
        "an item is added to a closed tuple",
        old={"type": "array", "items": [STRING], "additionalItems": False},
        new={"type": "array", "items": [STRING, INTEGER], "additionalItems": False},
        forward=["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    Case(
        "an item is added that the additional ones cover",
        old={"type": "array", "items": [STRING], "additionalItems": INTEGER},
        new={"type": "array", "items": [STRING, INTEGER], "additionalItems": INTEGER},
    ),
    Case(
        "an item is added that the additional ones do not cover",
        old={"type": "array", "items": [STRING], "additionalItems": STRING},
        new={"type": "array", "items": [STRING, INTEGER], "additionalItems": STRING},
        backward=["TYPE_CHANGED #/items/1", "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
        forward=["TYPE_CHANGED #/items/1", "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    Case(
        "an item with false is removed from a closed tuple",
        old={"type": "array", "items": [STRING, False], "additionalItems": False},
        new={"type": "array", "items": [STRING], "additionalItems": False},
    ),
    Case(
        "an item of a tuple changes",
        old={"type": "array", "items": [STRING, INTEGER]},
        new={"type": "array", "items": [STRING, BOOLEAN]},
        backward=["TYPE_CHANGED #/items/1"],
        forward=["TYPE_CHANGED #/items/1"],
    ),
    Case(
        "a tuple is closed",
        old={"type": "array", "items": [STRING]},
        new={"type": "array", "items": [STRING], "additionalItems": False},
        backward=["ADDITIONAL_ITEMS_REMOVED #/additionalItems"],
    ),
    Case(
        "the additional items of a tuple get a schema",
        old={"type": "array", "items": [STRING]},
        new={"type": "array", "items": [STRING], "additionalItems": STRING},
        backward=["ADDITIONAL_ITEMS_NARROWED #/additionalItems"],
    ),
    Case(
        "items become a tuple",
        old={"type": "array", "items": STRING},
        new={"type": "array", "items": [STRING]},
        backward=["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/0"],
        forward=["SCHEMA_ADDED #/items"],
    ),
    Case(
        "contains changes, which is not compared",
        old={"type": "array", "contains": STRING},
        new={"type": "array", "contains": INTEGER},
    ),
    Case(
        "prefixItems grow in an open tuple",
        old={"$schema": MODERN, "type": "array", "prefixItems": [STRING]},
        new={"$schema": MODERN, "type": "array", "prefixItems": [STRING, INTEGER]},
        backward=["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"],
    ),
    Case(
        "prefixItems grow in a closed tuple",
        old={"$schema": MODERN, "type": "array", "prefixItems": [STRING], "items": False},
        new={"$schema": MODERN, "type": "array", "prefixItems": [STRING, INTEGER], "items": False},
        forward=["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    Case(
        "items after prefixItems get a schema",
        old={"$schema": MODERN, "type": "array", "prefixItems": [STRING]},
        new={"$schema": MODERN, "type": "array", "prefixItems": [STRING], "items": STRING},
        backward=["ADDITIONAL_ITEMS_NARROWED #/additionalItems"],
    ),
    Case(
        "unevaluated items are forbidden",
        old={"$schema": MODERN, "type": "array", "prefixItems": [STRING]},
        new={"$schema": MODERN, "type": "array", "prefixItems": [STRING], "unevaluatedItems": False},
        backward=["UNEVALUATED_ITEMS_REMOVED #/unevaluatedItems"],
    ),
    Case(
        "minContains is raised",
        old={"$schema": MODERN, "type": "array", "contains": STRING, "minContains": 1},
        new={"$schema": MODERN, "type": "array", "contains": STRING, "minContains": 2},
        backward=["MIN_CONTAINS_INCREASED #/minContains"],
    ),
    Case(
        "maxContains is added",
        old={"$schema": MODERN, "type": "array", "contains": STRING},
        new={"$schema": MODERN, "type": "array", "contains": STRING, "maxContains": 2},
        backward=["MAX_CONTAINS_ADDED #/maxContains"],
    ),
]
