"""The drafts of JSON Schema, and the check of a schema against the metaschema of its draft.

A metaschema describes schemas inside schemas by recursion, which costs a validator a dozen stack frames a level. Here
the metaschema is taken apart into one small schema for each keyword, in which a nested schema only has to be an object
or a boolean; the check then walks through all schemas of a document with a list of those still to visit.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import jsonschema
from jsonschema import validators
from jsonschema.exceptions import best_match
from jsonschema_specifications import REGISTRY
from referencing import Specification
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

from tailrace.schema.json_schema.document import Json, sort_key
from tailrace.schema.json_schema.pattern import Expressions
from tailrace.schema.language import InvalidSchema

Check = Callable[[Json], str | None]
"""Returns what is wrong with the value of a keyword, or None."""

Path = tuple["Path", str] | None
"""The way to a schema, as its parent's path and one more segment."""

Subschemas = Literal["one", "list", "one or list", "map"]

SHOWN_CHARACTERS_MAX = 200

MEMO_VALUES_MAX = 1_000
MEMO_CHARACTERS_MAX = 100
"""Values of a keyword whose check is remembered as long as the process runs. Most are types and small numbers."""


@dataclass(frozen=True, eq=False)
class Draft:
    """One version of JSON Schema."""

    name: str
    metaschema: str
    id_keyword: str
    specification: Specification[Json]
    validator: type[Any]
    holders: Mapping[str, Subschemas]
    """The keywords whose values are schemas."""

    @cached_property
    def is_modern(self) -> bool:
        """Whether `$ref` applies together with the keywords beside it, as since 2019-09."""
        return "$defs" in self.holders

    def subschemas(self, schema: Mapping[str, Json]) -> Iterator[tuple[tuple[str, ...], Json]]:
        """Yield the schemas directly inside a schema, each with the segments that lead to it."""
        for keyword, value in schema.items():
            holder = self.holders.get(keyword)
            if holder is None:
                continue
            if holder == "map":
                yield from (((keyword, name), child) for name, child in value.items() if not isinstance(child, list))
            elif isinstance(value, list) and holder != "one":
                yield from (((keyword, str(index)), child) for index, child in enumerate(value))
            else:
                yield (keyword,), value


_OLD: dict[str, Subschemas] = {
    "additionalItems": "one",
    "additionalProperties": "one",
    "allOf": "list",
    "anyOf": "list",
    "definitions": "map",
    "dependencies": "map",
    "items": "one or list",
    "not": "one",
    "oneOf": "list",
    "patternProperties": "map",
    "properties": "map",
}
_SIXTH: dict[str, Subschemas] = _OLD | {"contains": "one", "propertyNames": "one"}
_SEVENTH: dict[str, Subschemas] = _SIXTH | {"if": "one", "then": "one", "else": "one"}
_NINETEEN: dict[str, Subschemas] = _SEVENTH | {
    "$defs": "map",
    "contentSchema": "one",
    "dependentSchemas": "map",
    "unevaluatedItems": "one",
    "unevaluatedProperties": "one",
}
_TWENTY = {name: holder for name, holder in _NINETEEN.items() if name not in ("additionalItems", "items")}
_TWENTY |= {"items": "one", "prefixItems": "list"}

FOUR = Draft("draft 4", "http://json-schema.org/draft-04/schema", "id", DRAFT4, jsonschema.Draft4Validator, _OLD)
SIX = Draft("draft 6", "http://json-schema.org/draft-06/schema", "$id", DRAFT6, jsonschema.Draft6Validator, _SIXTH)
SEVEN = Draft("draft 7", "http://json-schema.org/draft-07/schema", "$id", DRAFT7, jsonschema.Draft7Validator, _SEVENTH)
NINETEEN = Draft(
    "draft 2019-09",
    "https://json-schema.org/draft/2019-09/schema",
    "$id",
    DRAFT201909,
    jsonschema.Draft201909Validator,
    _NINETEEN,
)
TWENTY = Draft(
    "draft 2020-12",
    "https://json-schema.org/draft/2020-12/schema",
    "$id",
    DRAFT202012,
    jsonschema.Draft202012Validator,
    _TWENTY,
)

DEFAULT = SEVEN
"""The draft of schemas that name none or an unknown one, as in Confluent's registry."""

_BY_URL = {
    scheme + each.metaschema.partition(":")[2]: each
    for scheme in ("http:", "https:")
    for each in (FOUR, SIX, SEVEN, NINETEEN, TWENTY)
} | {"http://json-schema.org/schema": FOUR, "https://json-schema.org/schema": FOUR}


def by_url(url: str) -> Draft | None:
    """Return the draft whose metaschema has a URL, with http or https and with or without an empty fragment."""
    return _BY_URL.get(url.removesuffix("#"))


def draft_of(document: Json, default: Draft = DEFAULT) -> Draft:
    """Return the draft that a document names in `$schema`."""
    named = document.get("$schema") if isinstance(document, dict) else None
    return (by_url(named) if isinstance(named, str) else None) or default


class Checked:
    """What the checks of a schema and its imports share."""

    def __init__(self) -> None:
        self.drafts: dict[int, Draft] = {}
        """The draft of each schema that was checked, by its identity."""
        self.expressions = Expressions()


def check(document: Json, draft: Draft, checked: Checked) -> None:
    """Raise InvalidSchema if a schema or one inside it breaks the rules of its draft."""
    checks = _checks(draft)
    waiting: list[tuple[Json, Path]] = [(document, None)]
    while waiting:
        schema, path = waiting.pop()
        if not isinstance(schema, dict):
            _check_boolean(schema, path, draft)
            continue
        if id(schema) in checked.drafts:
            continue
        checked.drafts[id(schema)] = draft
        for keyword, value in schema.items():
            wrong = checks[keyword](value) if keyword in checks else None
            if wrong is not None:
                raise InvalidSchema(f"{shown((path, keyword))}: {wrong} ({draft.name})")
        if draft is FOUR:
            _check_exclusive_bounds(schema, path)
        _check_patterns(schema, path, checked.expressions)
        for segments, child in draft.subschemas(schema):
            child_path = path
            for segment in segments:
                child_path = (child_path, segment)
            waiting.append((child, child_path))


def shown(path: Path) -> str:
    """Return a path as the registry shows it, such as #/properties/name."""
    segments = []
    while path is not None:
        path, segment = path
        segments.append(segment)
    return "#/" + "/".join(reversed(segments))


def _check_boolean(schema: Json, path: Path, draft: Draft) -> None:
    """Draft 4 has no boolean schemas; only `additionalProperties` and `additionalItems` may be booleans there."""
    is_allowed = draft is not FOUR or path is None or path[1] in ("additionalProperties", "additionalItems")
    if not isinstance(schema, bool) or not is_allowed:
        raise InvalidSchema(f"{shown(path)}: {_short(schema)} is not a schema ({draft.name})")


def _check_exclusive_bounds(schema: Mapping[str, Json], path: Path) -> None:
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in schema and bound not in schema:
            raise InvalidSchema(f"{shown((path, exclusive))}: needs '{bound}' beside it ({FOUR.name})")


def _check_patterns(schema: Mapping[str, Json], path: Path, expressions: Expressions) -> None:
    if "pattern" in schema:
        expressions.check(schema["pattern"], shown((path, "pattern")))
    for expression in schema.get("patternProperties", ()):
        expressions.check(expression, shown((path, "patternProperties")))


@lru_cache
def _checks(draft: Draft) -> dict[str, Check]:
    """Return a check for each keyword that the draft's metaschema describes."""
    nested = {"type": "object"} if draft is FOUR else {"type": ["object", "boolean"]}
    described: dict[str, Json] = {}
    for url in [draft.metaschema, *_vocabularies(draft)]:
        for keyword, rule in REGISTRY.contents(url).get("properties", {}).items():
            described[keyword] = _without_nested(_taken_apart(rule, url, nested), nested)
    described["$ref"] = {"type": "string"}  # draft 4 leaves it to another specification
    return {keyword: _check_by(rule, draft) for keyword, rule in described.items()}


def _vocabularies(draft: Draft) -> list[str]:
    base = draft.metaschema.removesuffix("schema")
    return [base + part["$ref"] for part in REGISTRY.contents(draft.metaschema).get("allOf", ())]


def _taken_apart(rule: Json, url: str, nested: Json) -> Json:
    """Return a rule of a metaschema without references; one to the metaschema itself becomes `nested`."""
    if isinstance(rule, list):
        return [_taken_apart(each, url, nested) for each in rule]
    if not isinstance(rule, dict):
        return rule
    if "$dynamicRef" in rule or "$recursiveRef" in rule or rule.get("$ref") == "#":
        return nested
    if "$ref" in rule:
        place, _, pointer = rule["$ref"].partition("#")
        target_url = url.removesuffix("schema") + place if place else url
        target = REGISTRY.contents(target_url)
        for segment in pointer.strip("/").split("/"):
            target = target[segment]
        return _taken_apart(target, target_url, nested)
    return {keyword: _taken_apart(value, url, nested) for keyword, value in rule.items()}


def _without_nested(rule: Json, nested: Json) -> Json:
    """Return a rule that leaves it to the walk to check that what is nested is a schema, where that is all it says."""
    if rule in (nested, {"anyOf": [{"type": "boolean"}, nested], "default": {}}):
        return True
    return {name: value for name, value in rule.items() if value != nested} if isinstance(rule, dict) else rule


def _check_by(rule: Json, draft: Draft) -> Check:
    constraints = set() if isinstance(rule, bool) else rule.keys() - {"$comment", "default"}
    if not constraints:
        return lambda _: None
    if rule.get("type") == "string" and constraints <= {"type", "format", "title"}:
        return lambda value: None if isinstance(value, str) else f"{_short(value)} is not of type 'string'"
    validator = _with_linear_uniqueness(draft)(rule)

    def checked(value: Json) -> str | None:
        error = best_match(validator.iter_errors(value))
        if error is None:
            return None
        while error.context:  # of several rules, the one that the value broke while it had the right type
            error = next((each for each in error.context if each.validator != "type"), error.context[0])
        inside = "".join(f"/{segment}" for segment in error.absolute_path)
        return _cut(f"at {inside}: {error.message}" if inside else error.message)

    memo: dict[tuple[type, Json], str | None] = {}

    def check_scalar_once(value: Json) -> str | None:
        is_short = isinstance(value, int) or (isinstance(value, str) and len(value) <= MEMO_CHARACTERS_MAX)
        if not is_short or len(memo) > MEMO_VALUES_MAX:
            return checked(value)
        key = (type(value), value)
        if key not in memo:
            memo[key] = checked(value)
        return memo[key]

    return check_scalar_once


@lru_cache
def _with_linear_uniqueness(draft: Draft) -> type[Any]:
    """Return the draft's validator with a `uniqueItems` that does not compare all pairs of a large array."""

    def unique(_validator: Any, is_unique: bool, items: Json, _schema: Json) -> Iterator[jsonschema.ValidationError]:
        if is_unique and isinstance(items, list) and len({sort_key(item) for item in items}) < len(items):
            yield jsonschema.ValidationError("the array holds a value twice")

    extended: type[Any] = validators.extend(draft.validator, {"uniqueItems": unique})
    return extended


def _short(value: Json) -> str:
    return _cut(sort_key(value))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "…"
