"""Cases of compatibility: oneOf, anyOf, allOf and not."""

from tests.unit.schema.json_schema.case import BOOLEAN, INTEGER, MODERN, NULL, NUMBER, STRING, Case

CASES = [
    Case(
        "a type becomes one of two",
        old=STRING,
        new={"oneOf": [STRING, INTEGER]},
        forward=["TYPE_CHANGED #/"],
    ),
    Case(
        "a type becomes one of two others",
        old=STRING,
        new={"oneOf": [BOOLEAN, INTEGER]},
        backward=["TYPE_CHANGED #/"],
        forward=["TYPE_CHANGED #/"],
    ),
    Case(
        "a type becomes any of two",
        old=STRING,
        new={"anyOf": [INTEGER, STRING]},
        forward=["TYPE_CHANGED #/"],
    ),
    Case(
        "a type becomes all of two",
        old={"type": "object", "properties": {"a": STRING}},
        new={
            "allOf": [{"type": "object", "properties": {"a": STRING}}, {"type": "object", "properties": {"b": STRING}}]
        },
        backward=["TYPE_CHANGED #/"],
    ),
    Case(
        "a type becomes the only one of oneOf",
        old=STRING,
        new={"oneOf": [STRING]},
    ),
    Case(
        "oneOf grows",
        old={"oneOf": [STRING, INTEGER]},
        new={"oneOf": [STRING, INTEGER, BOOLEAN]},
        forward=["SUM_TYPE_NARROWED #/"],
    ),
    Case(
        "oneOf swaps one",
        old={"oneOf": [STRING, INTEGER]},
        new={"oneOf": [STRING, BOOLEAN]},
        backward=["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        forward=["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    Case(
        "oneOf is sorted differently",
        old={"oneOf": [STRING, INTEGER, BOOLEAN]},
        new={"oneOf": [BOOLEAN, STRING, INTEGER]},
    ),
    Case(
        "oneOf holds an alternative twice",
        old={"oneOf": [STRING, INTEGER]},
        new={"oneOf": [STRING, INTEGER, STRING]},
    ),
    Case(
        "an alternative of oneOf becomes wider",
        old={"oneOf": [INTEGER, STRING]},
        new={"oneOf": [NUMBER, STRING]},
        forward=["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    Case(
        "alternatives match only crosswise",
        old={"oneOf": [INTEGER, NUMBER]},
        new={"oneOf": [NUMBER, {"type": "number", "minimum": 0}]},
        backward=["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        forward=["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    Case(
        "oneOf becomes anyOf",
        old={"oneOf": [STRING, INTEGER]},
        new={"anyOf": [STRING, INTEGER]},
        forward=["COMBINED_TYPE_CHANGED #/"],
    ),
    Case(
        "oneOf becomes allOf",
        old={"oneOf": [STRING, INTEGER]},
        new={"allOf": [STRING, INTEGER]},
        backward=["COMBINED_TYPE_CHANGED #/"],
        forward=["COMBINED_TYPE_CHANGED #/"],
    ),
    Case(
        "allOf becomes anyOf",
        old={
            "allOf": [{"type": "object", "properties": {"a": STRING}}, {"type": "object", "properties": {"b": STRING}}]
        },
        new={
            "anyOf": [{"type": "object", "properties": {"a": STRING}}, {"type": "object", "properties": {"b": STRING}}]
        },
        forward=["COMBINED_TYPE_CHANGED #/"],
    ),
    Case(
        "allOf of one becomes oneOf of one",
        old={"allOf": [STRING]},
        new={"oneOf": [STRING]},
    ),
    Case(
        "allOf grows",
        old={"allOf": [{"type": "object", "properties": {"a": STRING}}]},
        new={
            "allOf": [{"type": "object", "properties": {"a": STRING}}, {"type": "object", "properties": {"b": STRING}}]
        },
        backward=["PRODUCT_TYPE_EXTENDED #/"],
    ),
    Case(
        "a part of allOf changes",
        old={
            "allOf": [{"type": "object", "properties": {"a": STRING}}, {"type": "object", "properties": {"b": STRING}}]
        },
        new={
            "allOf": [{"type": "object", "properties": {"a": STRING}}, {"type": "object", "properties": {"b": INTEGER}}]
        },
        backward=["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        lenient_backward=[],
        forward=["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        lenient_forward=[],
    ),
    Case(
        "an alternative with a type beside it grows",
        old={
            "type": "object",
            "oneOf": [{"type": "object", "properties": {"a": STRING}, "additionalProperties": False}],
        },
        new={
            "type": "object",
            "oneOf": [
                {"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
                {"type": "object", "properties": {"b": STRING}, "additionalProperties": False},
            ],
        },
        forward=["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    Case(
        "nested oneOf grows",
        old={"type": "object", "properties": {"a": {"oneOf": [STRING, INTEGER]}}},
        new={"type": "object", "properties": {"a": {"oneOf": [STRING, INTEGER, NULL]}}},
        forward=["SUM_TYPE_NARROWED #/properties/a"],
    ),
    Case(
        "a tagged union grows",
        old={
            "oneOf": [
                {"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]},
            ]
        },
        new={
            "oneOf": [
                {"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"const": "c"}}, "required": ["k"]},
            ]
        },
        forward=["SUM_TYPE_NARROWED #/"],
    ),
    Case(
        "nullable by oneOf",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": {"oneOf": [NULL, STRING]}}},
        forward=["TYPE_CHANGED #/properties/a"],
    ),
    Case(
        "not excludes more",
        old={"not": INTEGER},
        new={"not": NUMBER},
        backward=["NOT_TYPE_EXTENDED #/not"],
    ),
    Case(
        "not is added",
        old=STRING,
        new={"type": "string", "not": {"enum": ["a"]}},
        backward=["TYPE_CHANGED #/"],
    ),
    Case(
        "not excludes another type",
        old={"not": STRING},
        new={"not": INTEGER},
        backward=["NOT_TYPE_EXTENDED #/not"],
        forward=["NOT_TYPE_EXTENDED #/not"],
    ),
    Case(
        "a condition changes, which is not compared",
        old={"if": STRING, "then": {"maxLength": 3}},
        new={"if": STRING, "then": {"maxLength": 2}},
    ),
    Case(
        "a constraint is added to one alternative",
        old={"oneOf": [STRING, INTEGER]},
        new={"oneOf": [{"type": "string", "maxLength": 3}, INTEGER]},
        backward=["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    Case(
        "a constraint is added to an alternative of several, in 2020-12",
        old={"$schema": MODERN, "oneOf": [STRING, INTEGER]},
        new={"$schema": MODERN, "oneOf": [{"type": "string", "enum": ["a"]}, INTEGER]},
        backward=["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        unlike_confluent="8.3.1 counts each constraint of an alternative as an alternative of its own",
    ),
    Case(
        "the parts of allOf are split, in 2020-12",
        old={"$schema": MODERN, "allOf": [{"type": "object", "minProperties": 1}, {"enum": [{}]}]},
        new={"$schema": MODERN, "allOf": [{"type": "object", "minProperties": 1, "enum": [{}]}]},
    ),
]
