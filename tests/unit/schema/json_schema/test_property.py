"""Properties that hold for any JSON text made of the words of JSON Schema."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.schema.json_schema.test_parse import DRAFTS

from tailrace.schema.json_schema import JsonSchema, parse
from tailrace.schema.language import CompatibilityPolicy, InvalidSchema

SCHEMA_KEYWORDS = ["items", "not", "additionalProperties", "additionalItems", "contains", "if", "then", "propertyNames"]
SCHEMA_KEYWORDS += ["unevaluatedProperties", "unevaluatedItems"]
LIST_KEYWORDS = ["allOf", "anyOf", "oneOf", "prefixItems", "items"]
MAP_KEYWORDS = ["properties", "patternProperties", "definitions", "$defs", "dependencies", "dependentSchemas"]
NUMBER_KEYWORDS = ["minimum", "maximum", "exclusiveMinimum", "multipleOf", "minLength", "maxItems", "minContains"]
TYPES = ["string", "integer", "number", "object", "array", "boolean", "null"]
TARGETS = ["#", "#/definitions/a", "#/$defs/a", "#/properties/a", "#/allOf/0", "#a", "other.json", "http://[", "#/type"]

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
NAMES = st.sampled_from(["a", "b", "^a", "$ref", "["])


def schemas(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return schemas whose keywords mostly have values of the right kind."""
    types = st.one_of(st.sampled_from(TYPES), st.lists(st.sampled_from(TYPES), min_size=1, unique=True))
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "$schema": st.sampled_from([*DRAFTS.values(), "other"]),
        "$id": st.sampled_from(["http://acme.example/a.json", "#a", "a", "urn:a"]),
        "$anchor": st.just("a"),
        "$ref": st.sampled_from(TARGETS),
        "$dynamicRef": st.sampled_from(TARGETS),
        "type": types,
        "enum": st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr),
        "const": SCALARS,
        "default": SCALARS,
        "required": st.lists(NAMES, min_size=1, unique=True),
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, unique=True)),
        "pattern": st.sampled_from(["^a", "(a+)+$", "(?=a)", "["]),
        "uniqueItems": st.booleans(),
        **{keyword: st.integers(0, 3) for keyword in NUMBER_KEYWORDS},
        **dict.fromkeys(SCHEMA_KEYWORDS, children),
        **{keyword: st.lists(children, min_size=1, max_size=3) for keyword in LIST_KEYWORDS},
        **{keyword: st.dictionaries(NAMES, children, max_size=3) for keyword in MAP_KEYWORDS},
    }
    return st.one_of(
        st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True).flatmap(
            lambda names: st.fixed_dictionaries({name: keywords[name] for name in names})
        ),
        st.booleans(),
        st.dictionaries(st.sampled_from(sorted(keywords)), SCALARS, max_size=2),  # most of these are invalid
    )


SCHEMAS = st.recursive(schemas(st.just({})), schemas, max_leaves=12)


def parsed(value: Any) -> JsonSchema | None:
    try:
        return parse(json.dumps(value), {"other.json": '{"type": "string"}'})
    except InvalidSchema:
        return None


@settings(max_examples=300)
@given(SCHEMAS, SCHEMAS)
def test_any_two_schemas_are_refused_or_compared(old: Any, new: Any) -> None:
    before, after = parsed(old), parsed(new)
    if before is None or after is None:
        return
    for policy in CompatibilityPolicy:
        for found in after.differences(before, policy):
            assert found.kind
            assert found.path.startswith("#/")
            assert found.message


@settings(max_examples=300)
@given(SCHEMAS)
def test_a_schema_reads_what_it_wrote_itself(value: Any) -> None:
    schema = parsed(value)
    if schema is not None:
        assert schema.differences(schema) == []
        assert schema.normalized().differences(schema) == []


@settings(max_examples=300)
@given(SCHEMAS)
def test_a_stored_text_is_read_as_the_same_schema(value: Any) -> None:
    schema = parsed(value)
    if schema is not None:
        assert json.loads(schema.text) == value
        assert parse(schema.text, schema.imports).text == schema.text
        assert parse(schema.normalized().text, schema.imports).normalized().text == schema.normalized().text


@settings(max_examples=300)
@given(SCHEMAS, SCHEMAS)
def test_the_lenient_policy_refuses_no_more_than_the_strict_one(old: Any, new: Any) -> None:
    before, after = parsed(old), parsed(new)
    if before is not None and after is not None and not after.differences(before, CompatibilityPolicy.STRICT):
        assert after.differences(before, CompatibilityPolicy.LENIENT) == []
