"""Cases of compatibility: objects: content models, required properties, defaults and dependencies."""

from tests.unit.schema.json_schema.case import INTEGER, MODERN, NUMBER, STRING, Case

CASES = [
    Case(
        "nothing changes",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": STRING}},
    ),
    Case(
        "an optional property is added to an open content model",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": STRING, "b": INTEGER}},
        backward=["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"],
        lenient_backward=[],
    ),
    Case(
        "a property that takes any value is added to an open content model",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": STRING, "b": {}}},
    ),
    Case(
        "a property that is true is added to an open content model",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": STRING, "b": True}},
    ),
    Case(
        "a required property is added to an open content model",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": STRING, "b": INTEGER}, "required": ["b"]},
        backward=["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"],
    ),
    Case(
        "a required property with a default is added to an open content model",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": STRING, "b": {"type": "integer", "default": 0}}, "required": ["b"]},
        backward=["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"],
        lenient_backward=[],
    ),
    Case(
        "an optional property is added to a closed content model",
        old={"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
        new={"type": "object", "properties": {"a": STRING, "b": INTEGER}, "additionalProperties": False},
        forward=["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"],
        lenient_forward=[],
    ),
    Case(
        "a required property is added to a closed content model",
        old={"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
        new={
            "type": "object",
            "properties": {"a": STRING, "b": INTEGER},
            "required": ["b"],
            "additionalProperties": False,
        },
        backward=["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b"],
        forward=["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"],
        lenient_forward=[],
    ),
    Case(
        "a required property with a default is added to a closed content model",
        old={"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
        new={
            "type": "object",
            "properties": {"a": STRING, "b": {"type": "integer", "default": 0}},
            "required": ["b"],
            "additionalProperties": False,
        },
        forward=["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"],
        lenient_forward=[],
    ),
    Case(
        "a property with false is removed from a closed content model",
        old={"type": "object", "properties": {"a": STRING, "b": False}, "additionalProperties": False},
        new={"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
    ),
    Case(
        "a property is added that the schema of additional properties covers",
        old={"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING},
        new={"type": "object", "properties": {"a": STRING, "b": STRING}, "additionalProperties": STRING},
    ),
    Case(
        "a property is added that the schema of additional properties does not cover",
        old={"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING},
        new={"type": "object", "properties": {"a": STRING, "b": INTEGER}, "additionalProperties": STRING},
        backward=[
            "TYPE_CHANGED #/properties/b",
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b",
        ],
        lenient_backward=["TYPE_CHANGED #/properties/b"],
        forward=[
            "TYPE_CHANGED #/properties/b",
            "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b",
        ],
        lenient_forward=["TYPE_CHANGED #/properties/b"],
    ),
    Case(
        "a narrower property than the additional ones is added",
        old={"type": "object", "properties": {"a": STRING}, "additionalProperties": NUMBER},
        new={"type": "object", "properties": {"a": STRING, "b": INTEGER}, "additionalProperties": NUMBER},
        backward=[
            "TYPE_NARROWED #/properties/b",
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b",
        ],
        lenient_backward=["TYPE_NARROWED #/properties/b"],
    ),
    Case(
        "a required property is added to a partially open content model",
        old={"type": "object", "properties": {}, "additionalProperties": STRING},
        new={"type": "object", "properties": {"b": STRING}, "required": ["b"], "additionalProperties": STRING},
        backward=["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b"],
    ),
    Case(
        "a required property with a default is added to a partially open content model",
        old={"type": "object", "properties": {}, "additionalProperties": STRING},
        new={
            "type": "object",
            "properties": {"b": {"type": "string", "default": ""}},
            "required": ["b"],
            "additionalProperties": STRING,
        },
    ),
    Case(
        "a property is added that a pattern covers",
        old={"type": "object", "properties": {}, "patternProperties": {"^x_": STRING}, "additionalProperties": False},
        new={
            "type": "object",
            "properties": {"x_1": STRING},
            "patternProperties": {"^x_": STRING},
            "additionalProperties": False,
        },
    ),
    Case(
        "a property is added that a pattern does not cover",
        old={"type": "object", "properties": {}, "patternProperties": {"^x_": STRING}, "additionalProperties": False},
        new={
            "type": "object",
            "properties": {"x_1": INTEGER},
            "patternProperties": {"^x_": STRING},
            "additionalProperties": False,
        },
        backward=[
            "TYPE_CHANGED #/properties/x_1",
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/x_1",
        ],
        lenient_backward=["TYPE_CHANGED #/properties/x_1"],
        forward=[
            "TYPE_CHANGED #/properties/x_1",
            "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/x_1",
        ],
        lenient_forward=["TYPE_CHANGED #/properties/x_1"],
    ),
    Case(
        "a property is added beside a pattern that does not match",
        old={"type": "object", "properties": {}, "patternProperties": {"^x_": STRING}, "additionalProperties": False},
        new={
            "type": "object",
            "properties": {"y": INTEGER},
            "patternProperties": {"^x_": STRING},
            "additionalProperties": False,
        },
        forward=["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/y"],
        lenient_forward=[],
    ),
    Case(
        "a content model is closed",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
        backward=["ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"],
        lenient_backward=[],
    ),
    Case(
        "additional properties get a schema",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING},
        backward=["ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"],
        lenient_backward=[],
    ),
    Case(
        "additional properties are limited to no constraint",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": STRING}, "additionalProperties": {}},
        backward=["ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"],
        lenient_backward=[],
    ),
    Case(
        "the schema of additional properties becomes wider",
        old={"type": "object", "properties": {}, "additionalProperties": INTEGER},
        new={"type": "object", "properties": {}, "additionalProperties": NUMBER},
        forward=["TYPE_NARROWED #/additionalProperties"],
    ),
    Case(
        "the schema of additional properties gives way to false",
        old={"type": "object", "properties": {}, "additionalProperties": STRING},
        new={"type": "object", "properties": {}, "additionalProperties": False},
        backward=["ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"],
        lenient_backward=[],
    ),
    Case(
        "a property becomes required",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": STRING}, "required": ["a"]},
        backward=["REQUIRED_ATTRIBUTE_ADDED #/required/a"],
    ),
    Case(
        "a property with a default becomes required",
        old={"type": "object", "properties": {"a": {"type": "string", "default": "x"}}},
        new={"type": "object", "properties": {"a": {"type": "string", "default": "x"}}, "required": ["a"]},
    ),
    Case(
        "a property with the default null becomes required",
        old={"type": "object", "properties": {"a": {"type": ["string", "null"], "default": None}}},
        new={"type": "object", "properties": {"a": {"type": ["string", "null"], "default": None}}, "required": ["a"]},
    ),
    Case(
        "a required name without a property is added",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": STRING}, "required": ["z"]},
    ),
    Case(
        "a required property is removed from an open content model",
        old={"type": "object", "properties": {"a": STRING, "b": STRING}, "required": ["b"]},
        new={"type": "object", "properties": {"a": STRING}},
        forward=["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"],
    ),
    Case(
        "the type of a property changes",
        old={"type": "object", "properties": {"a": STRING}},
        new={"type": "object", "properties": {"a": INTEGER}},
        backward=["TYPE_CHANGED #/properties/a"],
        forward=["TYPE_CHANGED #/properties/a"],
    ),
    Case(
        "the type of a nested property changes",
        old={
            "type": "object",
            "properties": {
                "a": {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": STRING}}}}
            },
        },
        new={
            "type": "object",
            "properties": {
                "a": {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": INTEGER}}}}
            },
        },
        backward=["TYPE_CHANGED #/properties/a/properties/b/properties/c"],
        forward=["TYPE_CHANGED #/properties/a/properties/b/properties/c"],
    ),
    Case(
        "two properties change at once",
        old={"type": "object", "properties": {"a": STRING, "b": INTEGER}},
        new={"type": "object", "properties": {"a": INTEGER, "b": STRING}},
        backward=["TYPE_CHANGED #/properties/a", "TYPE_CHANGED #/properties/b"],
        forward=["TYPE_CHANGED #/properties/a", "TYPE_CHANGED #/properties/b"],
    ),
    Case(
        "maxProperties is added",
        old={"type": "object", "properties": {}},
        new={"type": "object", "properties": {}, "maxProperties": 3},
        backward=["MAX_PROPERTIES_ADDED #/maxProperties"],
    ),
    Case(
        "maxProperties is lowered",
        old={"type": "object", "properties": {}, "maxProperties": 5},
        new={"type": "object", "properties": {}, "maxProperties": 3},
        backward=["MAX_PROPERTIES_DECREASED #/maxProperties"],
    ),
    Case(
        "minProperties is added",
        old={"type": "object", "properties": {}},
        new={"type": "object", "properties": {}, "minProperties": 1},
        backward=["MIN_PROPERTIES_ADDED #/minProperties"],
    ),
    Case(
        "minProperties is raised",
        old={"type": "object", "properties": {}, "minProperties": 1},
        new={"type": "object", "properties": {}, "minProperties": 2},
        backward=["MIN_PROPERTIES_INCREASED #/minProperties"],
    ),
    Case(
        "a list of dependencies is added",
        old={"type": "object", "properties": {"a": STRING, "b": STRING}},
        new={"type": "object", "properties": {"a": STRING, "b": STRING}, "dependencies": {"a": ["b"]}},
        backward=["DEPENDENCY_ARRAY_ADDED #/dependencies/a"],
    ),
    Case(
        "a list of dependencies grows",
        old={"type": "object", "properties": {"a": STRING}, "dependencies": {"a": ["b"]}},
        new={"type": "object", "properties": {"a": STRING}, "dependencies": {"a": ["b", "c"]}},
        backward=["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
    ),
    Case(
        "a list of dependencies changes",
        old={"type": "object", "properties": {"a": STRING}, "dependencies": {"a": ["b"]}},
        new={"type": "object", "properties": {"a": STRING}, "dependencies": {"a": ["c"]}},
        backward=["DEPENDENCY_ARRAY_CHANGED #/dependencies/a"],
        forward=["DEPENDENCY_ARRAY_CHANGED #/dependencies/a"],
    ),
    Case(
        "a schema of a dependency is added",
        old={"type": "object", "properties": {"a": STRING}},
        new={
            "type": "object",
            "properties": {"a": STRING},
            "dependencies": {"a": {"type": "object", "properties": {"b": STRING}}},
        },
        backward=["DEPENDENCY_SCHEMA_ADDED #/dependencies/a"],
    ),
    Case(
        "a schema of a dependency changes",
        old={
            "type": "object",
            "properties": {"a": STRING},
            "dependencies": {"a": {"type": "object", "properties": {"b": STRING}}},
        },
        new={
            "type": "object",
            "properties": {"a": STRING},
            "dependencies": {"a": {"type": "object", "properties": {"b": INTEGER}}},
        },
        backward=["TYPE_CHANGED #/dependencies/a/properties/b"],
        forward=["TYPE_CHANGED #/dependencies/a/properties/b"],
    ),
    Case(
        "propertyNames and patternProperties change, which are not compared",
        old={
            "type": "object",
            "properties": {},
            "patternProperties": {"^x": STRING},
            "propertyNames": {"maxLength": 5},
        },
        new={
            "type": "object",
            "properties": {},
            "patternProperties": {"^x": INTEGER},
            "propertyNames": {"maxLength": 3},
        },
    ),
    Case(
        "title, description, default and id change",
        old={"type": "object", "properties": {"a": STRING}, "title": "A", "description": "one", "$id": "x"},
        new={
            "type": "object",
            "properties": {"a": STRING},
            "title": "B",
            "description": "two",
            "default": {},
            "$id": "y",
        },
    ),
    Case(
        "unevaluated properties are forbidden",
        old={"$schema": MODERN, "type": "object", "properties": {"a": STRING}},
        new={"$schema": MODERN, "type": "object", "properties": {"a": STRING}, "unevaluatedProperties": False},
        backward=["UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties"],
        lenient_backward=[],
    ),
    Case(
        "unevaluated properties are forbidden beside $defs",
        old={"$schema": MODERN, "type": "object", "properties": {"a": STRING}, "$defs": {"s": STRING}},
        new={
            "$schema": MODERN,
            "type": "object",
            "properties": {"a": STRING},
            "unevaluatedProperties": False,
            "$defs": {"s": STRING},
        },
        backward=["UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties"],
        lenient_backward=[],
        unlike_confluent="8.3.1 loses unevaluatedProperties beside $defs",
    ),
    Case(
        "unevaluated properties get a schema",
        old={"$schema": MODERN, "type": "object", "properties": {"a": STRING}},
        new={"$schema": MODERN, "type": "object", "properties": {"a": STRING}, "unevaluatedProperties": STRING},
        backward=["UNEVALUATED_PROPERTIES_NARROWED #/unevaluatedProperties"],
        lenient_backward=[],
    ),
    Case(
        "dependentRequired grows",
        old={"$schema": MODERN, "type": "object", "properties": {"a": STRING}, "dependentRequired": {"a": ["b"]}},
        new={"$schema": MODERN, "type": "object", "properties": {"a": STRING}, "dependentRequired": {"a": ["b", "c"]}},
        backward=["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
    ),
    Case(
        "a property with the default null becomes required, in 2020-12",
        old={"$schema": MODERN, "type": "object", "properties": {"a": {"type": ["string", "null"], "default": None}}},
        new={
            "$schema": MODERN,
            "type": "object",
            "properties": {"a": {"type": ["string", "null"], "default": None}},
            "required": ["a"],
        },
        unlike_confluent="8.3.1 takes the default null for none",
    ),
    Case(
        "dependentRequired and dependentSchemas stand together",
        old={
            "$schema": MODERN,
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"a": STRING},
                    "dependentRequired": {"a": ["b"]},
                    "dependentSchemas": {"a": {"type": "object", "properties": {"c": STRING}}},
                }
            ],
        },
        new={
            "$schema": MODERN,
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"a": STRING},
                    "dependentRequired": {"a": ["b"]},
                    "dependentSchemas": {"a": {"type": "object", "properties": {"c": INTEGER}}},
                }
            ],
        },
        backward=["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        forward=["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        unlike_confluent="8.3.1 fails with a duplicate key",
    ),
    Case(
        "dependentSchemas is added",
        old={"$schema": MODERN, "type": "object", "properties": {"a": STRING}},
        new={
            "$schema": MODERN,
            "type": "object",
            "properties": {"a": STRING},
            "dependentSchemas": {"a": {"type": "object", "properties": {"b": STRING}}},
        },
        backward=["DEPENDENCY_SCHEMA_ADDED #/dependencies/a"],
    ),
]
