"""Cases of compatibility: references, recursion and drafts."""

from tests.unit.schema.json_schema.case import INTEGER, MODERN, NUMBER, STRING, Case

CASES = [
    Case(
        "a schema moves into definitions",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": {"$ref": "#/definitions/s"}}, "definitions": {"s": STRING}},
    ),
    Case(
        "a definition changes",
        old={"type": "object", "properties": {"a": {"$ref": "#/definitions/s"}}, "definitions": {"s": STRING}},
        new={"type": "object", "properties": {"a": {"$ref": "#/definitions/s"}}, "definitions": {"s": INTEGER}},
        backward=["TYPE_CHANGED #/properties/a"],
        forward=["TYPE_CHANGED #/properties/a"],
    ),
    Case(
        "a definition becomes wider",
        old={"type": "object", "properties": {"a": {"$ref": "#/definitions/s"}}, "definitions": {"s": INTEGER}},
        new={"type": "object", "properties": {"a": {"$ref": "#/definitions/s"}}, "definitions": {"s": NUMBER}},
        forward=["TYPE_NARROWED #/properties/a"],
    ),
    Case(
        "an unused definition changes",
        old={"type": "object", "properties": {"a": STRING}, "definitions": {"s": STRING}},
        new={"type": "object", "properties": {"a": STRING}, "definitions": {"s": INTEGER}},
    ),
    Case(
        "one definition is used twice",
        old={
            "type": "object",
            "properties": {"a": {"$ref": "#/definitions/s"}, "b": {"$ref": "#/definitions/s"}},
            "definitions": {"s": STRING},
        },
        new={
            "type": "object",
            "properties": {"a": {"$ref": "#/definitions/s"}, "b": {"$ref": "#/definitions/s"}},
            "definitions": {"s": INTEGER},
        },
        backward=["TYPE_CHANGED #/properties/a", "TYPE_CHANGED #/properties/b"],
        forward=["TYPE_CHANGED #/properties/a", "TYPE_CHANGED #/properties/b"],
    ),
    Case(
        "a definition gets a property",
        old={
            "type": "array",
            "items": {"$ref": "#/definitions/p"},
            "definitions": {"p": {"type": "object", "properties": {"a": STRING}, "additionalProperties": False}},
        },
        new={
            "type": "array",
            "items": {"$ref": "#/definitions/p"},
            "definitions": {
                "p": {"type": "object", "properties": {"a": STRING, "b": STRING}, "additionalProperties": False}
            },
        },
        forward=["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/properties/b"],
        lenient_forward=[],
    ),
    Case(
        "a reference leads to a reference",
        old={
            "type": "object",
            "properties": {"a": {"$ref": "#/definitions/x"}},
            "definitions": {"x": {"$ref": "#/definitions/y"}, "y": STRING},
        },
        new={
            "type": "object",
            "properties": {"a": {"$ref": "#/definitions/x"}},
            "definitions": {"x": {"$ref": "#/definitions/y"}, "y": INTEGER},
        },
        backward=["TYPE_CHANGED #/properties/a"],
        forward=["TYPE_CHANGED #/properties/a"],
        unlike_confluent="8.3.1 compares only the first reference of a chain",
    ),
    Case(
        "a list that refers to itself changes",
        old={
            "type": "object",
            "properties": {"head": {"$ref": "#/definitions/n"}},
            "definitions": {"n": {"type": "object", "properties": {"v": INTEGER, "next": {"$ref": "#/definitions/n"}}}},
        },
        new={
            "type": "object",
            "properties": {"head": {"$ref": "#/definitions/n"}},
            "definitions": {"n": {"type": "object", "properties": {"v": STRING, "next": {"$ref": "#/definitions/n"}}}},
        },
        backward=["TYPE_CHANGED #/properties/head/properties/v"],
        forward=["TYPE_CHANGED #/properties/head/properties/v"],
    ),
    Case(
        "a list that refers to itself becomes wider",
        old={
            "type": "object",
            "properties": {"head": {"$ref": "#/definitions/n"}},
            "definitions": {"n": {"type": "object", "properties": {"v": INTEGER, "next": {"$ref": "#/definitions/n"}}}},
        },
        new={
            "type": "object",
            "properties": {"head": {"$ref": "#/definitions/n"}},
            "definitions": {"n": {"type": "object", "properties": {"v": NUMBER, "next": {"$ref": "#/definitions/n"}}}},
        },
        forward=["TYPE_NARROWED #/properties/head/properties/v"],
    ),
    Case(
        "a tree that refers to the root changes",
        old={"type": "object", "properties": {"v": STRING, "children": {"type": "array", "items": {"$ref": "#"}}}},
        new={"type": "object", "properties": {"v": INTEGER, "children": {"type": "array", "items": {"$ref": "#"}}}},
        backward=["TYPE_CHANGED #/properties/v"],
        forward=["TYPE_CHANGED #/properties/v"],
        unlike_confluent="8.3.1 reports the change once more inside the recursion",
    ),
    Case(
        "a recursive alternative grows",
        old={
            "$ref": "#/definitions/e",
            "definitions": {
                "e": {
                    "oneOf": [
                        STRING,
                        {
                            "type": "object",
                            "properties": {"l": {"$ref": "#/definitions/e"}, "r": {"$ref": "#/definitions/e"}},
                            "additionalProperties": False,
                        },
                    ]
                }
            },
        },
        new={
            "$ref": "#/definitions/e",
            "definitions": {
                "e": {
                    "oneOf": [
                        STRING,
                        INTEGER,
                        {
                            "type": "object",
                            "properties": {"l": {"$ref": "#/definitions/e"}, "r": {"$ref": "#/definitions/e"}},
                            "additionalProperties": False,
                        },
                    ]
                }
            },
        },
        forward=["SUM_TYPE_NARROWED #/", "COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        unlike_confluent="8.3.1 takes the recursion as compatible, which it is not",
    ),
    Case(
        "a recursive alternative shrinks to the recursion",
        old={
            "$ref": "#/definitions/e",
            "definitions": {"e": {"oneOf": [STRING, INTEGER, {"type": "array", "items": {"$ref": "#/definitions/e"}}]}},
        },
        new={
            "$ref": "#/definitions/e",
            "definitions": {"e": {"oneOf": [STRING, {"type": "array", "items": {"$ref": "#/definitions/e"}}]}},
        },
        backward=["SUM_TYPE_NARROWED #/", "COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        unlike_confluent="8.3.1 takes the recursion as compatible, which it is not",
    ),
    Case(
        "two definitions refer to each other",
        old={
            "$ref": "#/definitions/a",
            "definitions": {
                "a": {
                    "type": "object",
                    "properties": {"b": {"$ref": "#/definitions/b"}},
                    "additionalProperties": False,
                },
                "b": {
                    "type": "object",
                    "properties": {"a": {"$ref": "#/definitions/a"}, "v": STRING},
                    "additionalProperties": False,
                },
            },
        },
        new={
            "$ref": "#/definitions/a",
            "definitions": {
                "a": {
                    "type": "object",
                    "properties": {"b": {"$ref": "#/definitions/b"}},
                    "additionalProperties": False,
                },
                "b": {
                    "type": "object",
                    "properties": {"a": {"$ref": "#/definitions/a"}, "v": INTEGER},
                    "additionalProperties": False,
                },
            },
        },
        backward=["TYPE_CHANGED #/properties/b/properties/v"],
        forward=["TYPE_CHANGED #/properties/b/properties/v"],
    ),
    Case(
        "a required property with a reference has no default beside it",
        old={"type": "object", "properties": {}, "additionalProperties": False, "definitions": {"s": STRING}},
        new={
            "type": "object",
            "properties": {"a": {"$ref": "#/definitions/s", "default": "x"}},
            "required": ["a"],
            "additionalProperties": False,
            "definitions": {"s": STRING},
        },
        backward=["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
        forward=["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"],
        lenient_forward=[],
    ),
    Case(
        "a reference of 2020-12 with a type beside it",
        old={"$schema": MODERN, "type": "object", "properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": STRING}},
        new={
            "$schema": MODERN,
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/s", "type": "string"}},
            "$defs": {"s": STRING},
        },
        backward=["TYPE_CHANGED #/properties/a"],
    ),
    Case(
        "$defs changes",
        old={"$schema": MODERN, "type": "object", "properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": STRING}},
        new={"$schema": MODERN, "type": "object", "properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": INTEGER}},
        backward=["TYPE_CHANGED #/properties/a"],
        forward=["TYPE_CHANGED #/properties/a"],
    ),
    Case(
        "a draft 7 schema becomes one of 2020-12",
        old={
            "type": "object",
            "properties": {"a": STRING, "b": {"type": "array", "items": STRING}},
            "additionalProperties": False,
        },
        new={
            "$schema": MODERN,
            "type": "object",
            "properties": {"a": STRING, "b": {"type": "array", "items": STRING}},
            "additionalProperties": False,
        },
    ),
    Case(
        "a draft 4 schema becomes one of draft 7",
        old={"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {"a": INTEGER}},
        new={"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": NUMBER}},
        forward=["TYPE_NARROWED #/properties/a"],
    ),
    Case(
        "const of draft 4 is not a keyword",
        old={"$schema": "http://json-schema.org/draft-04/schema#", "const": 1},
        new={"$schema": "http://json-schema.org/draft-04/schema#", "const": 2},
    ),
]
