"""Validation of values by a schema, for serializers.

jsonschema-rs validates, tens of times as fast as jsonschema, with expressions in linear time. If it finds a value
invalid, jsonschema decides and says where and why; so it does for all values if jsonschema-rs does not take the schema,
for instance because of an expression with look-ahead. Its expressions are matched by RE2 where RE2 can compile them, so
that a value cannot stop a client for hours.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import jsonschema_rs
from jsonschema import validators
from jsonschema.exceptions import ValidationError, best_match

from tailrace.schema.json_schema.document import Json
from tailrace.schema.json_schema.draft import FOUR, NINETEEN, SEVEN, SIX, TWENTY, Draft, draft_of
from tailrace.schema.json_schema.pattern import linear
from tailrace.schema.json_schema.reference import References
from tailrace.schema.json_schema.schema import JsonSchema

VALIDATORS_MAX = 1_000
"""Validators that are kept. Serializers use few schemas at a time."""

SHOWN_CHARACTERS_MAX = 200

_FAST: dict[Draft, Callable[..., Any]] = {
    FOUR: jsonschema_rs.Draft4Validator,
    SIX: jsonschema_rs.Draft6Validator,
    SEVEN: jsonschema_rs.Draft7Validator,
    NINETEEN: jsonschema_rs.Draft201909Validator,
    TWENTY: jsonschema_rs.Draft202012Validator,
}

_FAST_BASE = "json-schema:///"
"""What jsonschema-rs puts before the name of a document without an address."""


class InvalidValue(ValueError):
    """A value that its schema does not allow. The message says where and why."""


class Validator:
    """What decides whether a value fits a schema."""

    def __init__(self, schema: JsonSchema) -> None:
        # Numbers as floats, as values have them: a float cannot be divided by a Decimal.
        document = json.loads(schema.text)
        draft = draft_of(document)
        references = References(document, draft, schema.imports, json.loads)
        self._validator = _with_linear_patterns(draft)(references.root, registry=references.registry)
        self._fast = _fast_validator(references, draft)

    def validate(self, value: Json) -> None:
        """Raise InvalidValue if the schema does not allow a value."""
        if self._fast is not None and _is_quickly_valid(self._fast, value):
            return
        try:
            if self._validator.is_valid(value):
                return
            error = best_match(self._validator.iter_errors(value))
        except RecursionError:
            raise InvalidValue("the value is nested too deeply, or its schema refers to itself without end") from None
        path = "".join(f"/{segment}" for segment in error.absolute_path)
        said = error.message
        shown = said if len(said) <= SHOWN_CHARACTERS_MAX else said[:SHOWN_CHARACTERS_MAX] + "…"
        raise InvalidValue(f"at {path or '/'}: {shown}")


def _fast_validator(references: References, draft: Draft) -> Any:
    """Return a validator of jsonschema-rs; None if it does not take the schema."""

    def retrieve(address: str) -> Json:
        return references.retrieve(address.removeprefix(_FAST_BASE)).contents

    try:
        return _FAST[draft](
            references.root, retriever=retrieve, pattern_options=jsonschema_rs.RegexOptions(), validate_formats=False
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, LookupError):
        return None


def _is_quickly_valid(fast: Any, value: Json) -> bool:
    try:
        return bool(fast.is_valid(value))
    except ValueError:  # what JSON cannot hold, or is nested deeper than jsonschema-rs goes
        return False


@lru_cache(maxsize=VALIDATORS_MAX)
def validator(schema: JsonSchema) -> Validator:
    """Return the validator of a schema, the same one each time."""
    return Validator(schema)


@lru_cache
def _with_linear_patterns(draft: Draft) -> type[Any]:
    changed = {
        "additionalProperties": _additional_properties,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
    }
    extended: type[Any] = validators.extend(draft.validator, changed)
    return extended


def _matches(expression: str, text: str) -> bool:
    matcher = linear(expression)
    return (matcher.search(text) if matcher is not None else re.search(expression, text)) is not None


def _pattern(_: Any, expression: str, value: Json, _schema: Json) -> Iterator[ValidationError]:
    if isinstance(value, str) and not _matches(expression, value):
        yield ValidationError(f"{value!r} does not match {expression!r}")


def _pattern_properties(running: Any, patterns: Json, value: Json, _schema: Json) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    for expression, schema in patterns.items():
        for name, child in value.items():
            if _matches(expression, name):
                yield from running.descend(child, schema, path=name, schema_path=expression)


def _additional_properties(running: Any, rest: Json, value: Json, schema: Json) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, child in value.items():
        if name in named or any(_matches(expression, name) for expression in patterns):
            continue
        if rest is False:
            yield ValidationError(f"the property '{name}' is not allowed")
        elif rest is not True:
            yield from running.descend(child, rest, path=name)
