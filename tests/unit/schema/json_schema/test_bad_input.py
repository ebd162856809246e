"""Texts that are no schema, and schemas that are made to exhaust the registry."""

import json
import sys

import pytest
from tests.unit.schema.json_schema.test_parse import DRAFTS, refused

from tailrace.base.schema_limits import REGEX_CHARACTERS_MAX, REGEX_PROGRAMS_SIZE_MAX, REGEXES_PER_SCHEMA_MAX
from tailrace.schema.json_schema import container, parse
from tailrace.schema.json_schema.document import JSON_DEPTH_MAX
from tailrace.schema.json_schema.draft import MEMO_CHARACTERS_MAX, TWENTY, _checks
from tailrace.schema.json_schema.pattern import _Compiled
from tailrace.schema.language import InvalidSchema

MODERN = f'"$schema": "{DRAFTS["2020-12"]}"'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not valid JSON"),
        (" ", "not valid JSON"),
        ("{", "line 1, column 2"),
        ("nul", "not valid JSON"),
        ("{'type': 'string'}", "not valid JSON"),
        ('{"type": "string",}', "not valid JSON"),
        ('{"type": "string"} more', "Extra data"),
        ('{"default": NaN}', "NaN is not a JSON value"),
        ('{"default": -Infinity}', "-Infinity is not a JSON value"),
        (r'{"title": "\ud800"}', "half of a surrogate pair"),
        ('{"title": "\udc00"}', "half of a surrogate pair"),
        ('{"maximum": 1e99999999999999999999}', "out of range"),
        ('{"maximum": ' + "9" * 5_000 + "}", "more than 1000 characters"),
    ],
)
def test_a_text_that_is_not_json(text: str, said: str) -> None:
    assert said in refused(text)


@pytest.mark.parametrize("text", ["null", "5", "1.5", '"string"', "[]", '[{"type": "string"}]'])
def test_json_that_is_no_schema(text: str) -> None:
    assert refused(text) == "a JSON Schema is an object or a boolean"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type": "text"}', "#/type: 'text' is not one of"),
        ('{"type": []}', "#/type: [] should be non-empty"),
        ('{"type": ["string", "string"]}', "#/type: the array holds a value twice"),
        ('{"title": 5}', "#/title: 5 is not of type 'string'"),
        ('{"properties": []}', "#/properties: [] is not of type 'object'"),
        ('{"properties": {"a": {"properties": {"b": 5}}}}', "#/properties/a/properties/b: 5 is not a schema"),
        ('{"allOf": [{}, null]}', "#/allOf/1: null is not a schema"),
        ('{"allOf": []}', "#/allOf: [] should be non-empty"),
        ('{"items": [5]}', "#/items"),
        ('{"required": "a"}', "#/required: 'a' is not of type 'array'"),
        ('{"required": ["a", "a"]}', "#/required: the array holds a value twice"),
        ('{"minLength": 1.5}', "#/minLength: Decimal('1.5') is not of type 'integer'"),
        ('{"multipleOf": 0}', "#/multipleOf: 0 is less than or equal to the minimum of 0"),
        ('{"dependencies": {"a": [5]}}', "#/dependencies"),
        ('{"definitions": {"unused": {"type": "text"}}}', "#/definitions/unused/type"),
        ('{"$id": 5}', "#/$id"),
        ('{"$schema": 5}', "#/$schema"),
        (f'{{{MODERN}, "$defs": {{"a": {{"minItems": "x"}}}}}}', "#/$defs/a/minItems"),
        (f'{{{MODERN}, "unevaluatedProperties": 5}}', "#/unevaluatedProperties: 5 is not a schema"),
    ],
)
def test_a_schema_that_breaks_its_metaschema(text: str, said: str) -> None:
    assert said in refused(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"$ref": "#/definitions/a"}', "$ref '#/definitions/a' cannot be resolved"),
        ('{"properties": {"a": {"$ref": "#nowhere"}}}', "$ref '#nowhere' cannot be resolved"),
        ('{"properties": {"a": {"$ref": "other.json"}}}', "$ref 'other.json' cannot be resolved"),
        ('{"properties": {"a": {"$ref": "https://example.com/a.json"}}}', "cannot be resolved"),
        ('{"properties": {"a": {"$ref": "file:///etc/passwd"}}}', "cannot be resolved"),
        ('{"properties": {"a": {"$ref": "http://["}}}', "cannot be resolved"),
        ('{"properties": {"a": {"$ref": "#/title/0"}}, "title": "x"}', "does not lead to a schema"),
        ('{"properties": {"a": {"$ref": "#/title"}}, "title": "x"}', "does not lead to a schema"),
        ('{"properties": {"a": {"$ref": "#/x/y"}}, "x": {"y": {"type": "text"}}}', "#/type"),
        ('{"properties": {"a": {"$ref": "#/allOf/x"}}, "allOf": [{}]}', "cannot be resolved"),
        ('{"properties": {"a": {"$ref": 5}}}', "#/properties/a/$ref: 5 is not of type 'string'"),
        ('{"not": {"$ref": "#/nowhere"}}', "cannot be resolved"),
        ('{"contains": {"$ref": "#/nowhere"}}', "cannot be resolved"),
        ('{"if": {"$ref": "#/nowhere"}}', "cannot be resolved"),
        (f'{{{MODERN}, "$defs": {{"unused": {{"$ref": "#/nowhere"}}}}}}', "cannot be resolved"),
        ('{"$ref": "#"}', "$ref '#' leads back to itself"),
        ('{"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}', "leads back to itself"),
        (
            '{"items": {"$ref": "#/definitions/a"},'
            ' "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}}',
            "leads back to itself",
        ),
        (f'{{{MODERN}, "$ref": "#"}}', "leads back to itself"),
    ],
)
def test_a_reference_that_leads_nowhere(text: str, said: str) -> None:
    assert said in refused(text)


def test_imports_that_refer_to_each_other_in_a_circle() -> None:
    imports = {"a.json": '{"$ref": "b.json"}', "b.json": '{"$ref": "a.json"}'}
    assert "leads back to itself" in refused('{"$ref": "a.json"}', imports)


def test_the_last_of_equal_keys_wins() -> None:
    schema = parse('{"properties": {"a": {"type": "string"}, "a": {"type": "integer"}}}', {})
    assert schema.text == '{"properties":{"a":{"type":"integer"}}}'


@pytest.mark.parametrize("text", ['{"not":' * 10_000 + "{}" + "}" * 10_000, "[" * 1_000_000, '{"a":' * 100_000])
def test_nesting_without_end(text: str) -> None:
    assert f"deeper than {JSON_DEPTH_MAX} levels" in refused(text)


@pytest.mark.parametrize(
    ("before", "after"), [('{"properties":{"a":', "}}"), ('{"items":[', "]}"), ('{"allOf":[', "]}")]
)
def test_the_deepest_nesting_is_compared(before: str, after: str) -> None:
    depth = JSON_DEPTH_MAX // 2 - 1
    old = parse(before * depth + '{"type":"string"}' + after * depth, {})
    new = parse(before * depth + '{"type":"integer"}' + after * depth, {})
    assert len(new.differences(old)) == 1
    assert new.normalized().text


def test_ten_megabytes() -> None:
    properties = {f"property_{number}": {"type": "string", "description": "x" * 1_000} for number in range(9_800)}
    text = json.dumps({"type": "object", "properties": properties}, separators=(",", ":"))
    assert len(text) > 10_000_000
    schema = parse(text, {})
    assert schema.text == text
    assert schema.differences(parse(text, {})) == []


@pytest.mark.parametrize("draft", ["4", "7"])
def test_a_huge_enum_of_mixed_values(draft: str) -> None:
    """A comparison of all pairs would take minutes: draft 4 wants the values to be different."""
    values = [value for number in range(20_000) for value in (number, f"v{number}", {"n": number})]
    text = json.dumps({"$schema": DRAFTS[draft], "enum": values})
    smaller = json.dumps({"$schema": DRAFTS[draft], "enum": values[1:]})
    assert [found.kind for found in parse(smaller, {}).differences(parse(text, {}))] == ["ENUM_ARRAY_NARROWED"]
    assert "twice" in refused(json.dumps({"$schema": DRAFTS["4"], "enum": [*values, 5]}))


@pytest.mark.parametrize("expression", ["[", "(", "*a", "a{3,1}", "\\"])
def test_an_expression_that_is_none(expression: str) -> None:
    assert "#/pattern: " in refused(json.dumps({"pattern": expression}))
    assert "#/patternProperties: " in refused(json.dumps({"patternProperties": {expression: {}}}))


@pytest.mark.parametrize(
    "expression",
    [
        *("^(a+)+$", "(?=a)b", r"(a)\1", r"\p{Alpha}+", r"\p{IsLatin}", "[a-z&&[^b]]", "(?<n>a)", "a++", "(?<=a+)b"),
        *(
            r"\cA",
            r"\h+",
            r"\R",
            r"\u0041",
            r"\/",
            "(?i)a",
            r"\d{1,5000}",
            "(" * 500 + ")" * 500,
            "((a{999}){999}){999}",
        ),
    ],
)
def test_an_expression_of_java_or_javascript_is_accepted(expression: str) -> None:
    assert parse(json.dumps({"pattern": expression}), {}).text


@pytest.mark.parametrize("expression", ["^(a+)+$", "^(?=(a+)+$)"])
def test_an_expression_that_takes_exponential_time(expression: str) -> None:
    closed = {"type": "object", "additionalProperties": False, "patternProperties": {expression: {"type": "string"}}}
    added = closed | {"properties": {"a" * 60 + "!": {"type": "integer"}}}
    assert parse(json.dumps(added), {}).differences(parse(json.dumps(closed), {})) == []


def chain(length: int, end: str) -> str:
    """Return definitions each of which refers to the next."""
    definitions: dict[str, object] = {
        f"d{number}": {"properties": {"x": {"$ref": f"#/definitions/d{number + 1}"}}} for number in range(length)
    }
    return json.dumps({"$ref": "#/definitions/d0", "definitions": definitions | {f"d{length}": {"type": end}}})


def test_a_long_chain_of_references() -> None:
    old, new = parse(chain(3_000, "string"), {}), parse(chain(3_000, "integer"), {})
    (found,) = new.differences(old)
    assert found.path == "#/" + "/".join(["properties/x"] * 3_000)


def test_a_change_at_the_end_of_more_ways_than_can_be_listed() -> None:
    def ways(end: str) -> str:
        definitions: dict[str, object] = {
            f"d{number}": {"properties": {name: {"$ref": f"#/definitions/d{number + 1}"} for name in "ab"}}
            for number in range(60)
        }
        return json.dumps({"$ref": "#/definitions/d0", "definitions": definitions | {"d60": {"type": end}}})

    assert len(parse(ways("string"), {}).differences(parse(ways("integer"), {}))) == 1_000


def alternatives(first: int, count: int) -> str:
    return json.dumps({"oneOf": [{"const": number} for number in range(first, first + count)]})


def test_many_alternatives_with_one_more() -> None:
    assert parse(alternatives(0, 3_001), {}).differences(parse(alternatives(0, 3_000), {})) == []


def test_more_alternatives_than_can_be_compared() -> None:
    (found,) = parse(alternatives(5_000, 2_000), {}).differences(parse(alternatives(0, 2_000), {}))
    assert found.kind == "COMBINED_TYPE_SUBSCHEMAS_CHANGED"


def test_definitions_that_all_refer_to_each_other() -> None:
    def web(count: int, first: str) -> str:
        definitions = {
            f"d{number}": {
                "title": str(number),
                "anyOf": [
                    {"type": first if number == 0 else "string"},
                    *({"$ref": f"#/definitions/d{other}"} for other in range(count) if other != number),
                ],
            }
            for number in range(count)
        }
        return json.dumps({"$ref": "#/definitions/d0", "definitions": definitions})

    assert parse(web(12, "string"), {}).differences(parse(web(12, "string"), {})) == []
    assert parse(web(12, "integer"), {}).differences(parse(web(12, "string"), {})) != []


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [("1e999999999", "3e-999999999", "MULTIPLE_OF_CHANGED"), ("3e-999999999", "1e999999999", "MULTIPLE_OF_CHANGED")],
)
def test_exponents_that_no_memory_holds(old: str, new: str, kind: str) -> None:
    found = parse(f'{{"multipleOf": {new}}}', {}).differences(parse(f'{{"multipleOf": {old}}}', {}))
    assert [each.kind for each in found] == [kind]


def test_a_schema_that_contains_only_itself() -> None:
    text = '{"allOf": [{"$ref": "#"}]}'
    assert parse(text, {}).differences(parse(text, {})) == []
    with pytest.raises(InvalidSchema):
        parse('{"allOf": [{"$ref": "#/nowhere"}]}', {})


def with_patterns(expressions: list[str]) -> str:
    return json.dumps({"properties": {str(index): {"pattern": each} for index, each in enumerate(expressions)}})


def test_expressions_with_large_programs_are_refused() -> None:
    """Each was kept with 5 MB: 160 KB of schema took 19 GB."""
    said = refused(with_patterns([r"(\pL{100}){3}" + "N" * count for count in range(30)]))
    assert said == "#/properties/7/pattern: the regular expressions of the schema repeat too much; " + (
        "lower the numbers in their braces"
    )


def test_realistic_expressions_with_large_programs_are_accepted() -> None:
    parse(with_patterns([rf"^[\p{{L}}\p{{N}} _-]{{1,{count}}}$" for count in range(99, 129)]), {})
    parse(with_patterns([r"^\p{L}{1,255}$"] * 1_000), {})


def test_what_is_kept_of_compiled_expressions_is_bounded() -> None:
    compiled = _Compiled()
    for count in range(60):
        assert compiled.find(r"\pL{250}" + "N" * count)[0] is not None
    assert sum(size for _, size in compiled._known.values()) == compiled._size <= REGEX_PROGRAMS_SIZE_MAX
    assert 10 < len(compiled._known) < 60
    assert next(reversed(compiled._known)).endswith("N" * 59)


def test_a_long_expression_is_refused() -> None:
    parse(json.dumps({"pattern": "a" * REGEX_CHARACTERS_MAX}), {})
    said = refused(json.dumps({"pattern": "a" * (REGEX_CHARACTERS_MAX + 1)}))
    assert said == "#/pattern: the regular expression has 10001 characters of at most 10000"


def test_many_expressions_are_refused() -> None:
    parse(with_patterns([f"a{count}" for count in range(REGEXES_PER_SCHEMA_MAX)] * 2), {})
    said = refused(with_patterns([f"a{count}" for count in range(REGEXES_PER_SCHEMA_MAX + 1)]))
    assert said == "#/properties/0/pattern: the schema has more than 1000 regular expressions"


def test_the_names_of_properties_are_matched_with_a_bounded_number_of_patterns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each property that the reader does not name was matched with each pattern: 56 KB took 15 s."""
    matched = []
    monkeypatch.setattr(container, "covers", lambda expression, name: matched.append((expression, name)))
    patterns: dict[str, object] = {f"^x{number}": {} for number in range(1_000)}
    closed = {"type": "object", "additionalProperties": False, "patternProperties": patterns}

    def kinds(names: list[str]) -> set[str]:
        named = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
        return {change.kind for change in parse(json.dumps(closed), {}).differences(parse(json.dumps(named), {}))}

    assert "COMBINED_TYPE_SUBSCHEMAS_CHANGED" not in kinds([f"p{number}" for number in range(90)])
    assert len(matched) == 90_000
    matched.clear()
    assert kinds([f"p{number}" for number in range(1_000)]) == {"COMBINED_TYPE_SUBSCHEMAS_CHANGED"}
    assert 100_000 <= len(matched) < 110_000
    matched.clear()
    assert kinds(["p" * 100_000]) == {"COMBINED_TYPE_SUBSCHEMAS_CHANGED"}
    assert len(matched) < 200


def test_a_long_value_of_a_keyword_is_not_kept() -> None:
    """A valid `$anchor` of 2 MB stayed in memory as long as the process ran."""
    check = _checks(TWENTY)["$anchor"]
    long, short = "a" * 2_000_000, "a" * MEMO_CHARACTERS_MAX
    before = sys.getrefcount(long), sys.getrefcount(short)
    assert check(long) is check(short) is None
    assert (sys.getrefcount(long), sys.getrefcount(short) - 1) == before
