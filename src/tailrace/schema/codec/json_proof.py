"""Proofs that rows of JSON fit a schema, from the columns that Arrow has read.

A proof looks at whole columns and says which rows are certainly valid; the others have to be validated one by one. It
is made only for schemas whose keywords can all be judged by columns. Arrow does not tell a property that is missing
from one that is null, so a row with a missing property is proven only if its text does not have the word null.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_OTHER_KEYWORDS = frozenset(
    {
        *("$ref", "$dynamicRef", "$recursiveRef", "allOf", "not", "if", "then", "else"),
        *("const", "multipleOf", "pattern"),
        *(
            "uniqueItems",
            "contains",
            "minContains",
            "maxContains",
            "prefixItems",
            "additionalItems",
            "unevaluatedItems",
        ),
        *("minProperties", "maxProperties", "patternProperties", "propertyNames", "unevaluatedProperties"),
        *("dependencies", "dependentRequired", "dependentSchemas"),
    }
)
"""Keywords that restrict values and that no proof knows. All that stand neither here nor below are annotations."""

_EXACT_MAX = 2**53
"""Numbers from here on may be rounded in a column, so their bounds are not compared."""


class _Unsupported(Exception):
    """A schema that columns cannot prove."""


class Proof(NamedTuple):
    """What proves values other than null, and whether null is valid.

    `check` takes values and, for each, whether the text of its row may have a null. It returns which are proven.
    """

    check: Callable[[Any, Any], Any]
    allows_null: bool


def make_proof(schema: Any) -> Proof | None:
    """Return the proof for objects with a schema; None if the columns do not show enough."""
    try:
        if schema is True:
            return _anything()
        if not isinstance(schema, Mapping):
            return None
        return _proof({"type": "object", **schema})
    except _Unsupported:
        return None


def _proof(schema: Any) -> Proof:
    if schema is True or schema == {}:
        return _anything()
    if not isinstance(schema, Mapping) or schema.keys() & _OTHER_KEYWORDS:
        raise _Unsupported
    keywords = schema.keys() & _KEYWORDS
    if keywords in ({"oneOf"}, {"anyOf"}):
        return _optional(schema["oneOf" if "oneOf" in keywords else "anyOf"])
    named = schema.get("type")
    kinds = [named] if isinstance(named, str) else list(named or ())
    others = [kind for kind in kinds if kind != "null"]
    if len(others) != 1 or others[0] not in _MAKERS:
        raise _Unsupported
    known, make = _MAKERS[others[0]]
    if not keywords <= known:
        raise _Unsupported
    # The choices of an enum are texts, so null is none of them.
    return Proof(make(schema), "null" in kinds and "enum" not in schema)


def _anything() -> Proof:
    return Proof(lambda values, _nulls: pa.repeat(True, len(values)), allows_null=True)


def _optional(branches: Any) -> Proof:
    """Return the proof of a schema or null, in any order, as generators of schemas write it."""
    plain = [each for each in branches if not _is_null(each)]
    if len(branches) != 2 or len(plain) != 1:
        raise _Unsupported
    proof = _proof(plain[0])
    if proof.allows_null:
        raise _Unsupported
    return Proof(proof.check, allows_null=True)


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null" and schema.keys() & _ALL_KEYWORDS == {"type"}


# --- the types


def _boolean(_schema: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    return lambda values, _nulls: pa.repeat(pa.types.is_boolean(values.type), len(values))


def _number(schema: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    bounds = [(compare, _bound(schema[name])) for name, compare in _BOUNDS.items() if name in schema]
    takes_floats = "number" in (schema["type"] if isinstance(schema["type"], list) else [schema["type"]])

    def check(values: Any, _nulls: Any) -> Any:
        is_float = pa.types.is_floating(values.type)
        if not (pa.types.is_integer(values.type) or (is_float and takes_floats)):
            return pa.repeat(False, len(values))
        proven = pa.repeat(True, len(values))
        for compare, bound in bounds:
            proven = pc.and_(proven, compare(values, bound))
        if not bounds:
            return proven
        is_exact = pc.and_(pc.less(values, _EXACT_MAX), pc.greater(values, -_EXACT_MAX))
        return pc.and_(proven, is_exact)

    return check


def _bound(bound: Any) -> Any:
    """Return a bound; in Draft 4, exclusiveMinimum is a boolean, which changes what minimum means."""
    if isinstance(bound, bool) or not isinstance(bound, int | float) or abs(bound) >= _EXACT_MAX:
        raise _Unsupported
    return bound


def _string(schema: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    least, most = (_count(schema.get(name)) for name in ("minLength", "maxLength"))
    choices = schema.get("enum")
    if choices is not None and not all(isinstance(each, str) for each in choices):
        raise _Unsupported

    def check(values: Any, _nulls: Any) -> Any:
        if not pa.types.is_string(values.type):
            return pa.repeat(False, len(values))
        proven = pa.repeat(True, len(values))
        if least is not None or most is not None:
            proven = _within(pc.utf8_length(values), least, most)
        if choices is not None:
            proven = pc.and_(proven, pc.is_in(values, value_set=pa.array(choices, pa.string())))
        return proven

    return check


def _array(schema: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    items = _proof(schema.get("items", True))
    least, most = (_count(schema.get(name)) for name in ("minItems", "maxItems"))

    def check(values: Any, nulls: Any) -> Any:
        if not pa.types.is_list(values.type):
            return pa.repeat(False, len(values))
        proven = _within(pc.list_value_length(values), least, most)
        parents, children = pc.list_parent_indices(values), pc.list_flatten(values)
        # An element cannot be missing, so one that is null was written so.
        good = pc.if_else(children.is_null(), items.allows_null, items.check(children, nulls.take(parents)))
        bad = pc.unique(parents.filter(pc.invert(good)))
        if len(bad) == 0:
            return proven
        rows = pa.array(range(len(values)), bad.type)
        return pc.and_(proven, pc.invert(pc.is_in(rows, value_set=bad)))

    return check


def _object(schema: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    properties = {name: _proof(each) for name, each in schema.get("properties", {}).items()}
    required: Sequence[str] = schema.get("required", ())
    is_open = schema.get("additionalProperties", True)
    if not isinstance(is_open, bool):
        raise _Unsupported

    def check(values: Any, nulls: Any) -> Any:
        if not pa.types.is_struct(values.type):
            return pa.repeat(False, len(values))
        columns = dict(zip([field.name for field in values.type], values.flatten(), strict=True))
        proven = pa.repeat(not required or columns.keys() >= set(required), len(values))
        for name, column in columns.items():
            absent = column.is_null()
            if name in properties:
                proof = properties[name]
                if_absent = True if proof.allows_null else pc.invert(nulls)
                good = pc.if_else(absent, if_absent, proof.check(column, nulls))
            elif is_open:
                good = True
            else:
                good = pc.and_(absent, pc.invert(nulls))
            if name in required:
                good = pc.and_(good, pc.invert(absent))
            proven = pc.and_(proven, good)
        return proven

    return check


def _within(counts: Any, least: int | None, most: int | None) -> Any:
    proven = pc.greater_equal(counts, least or 0)
    return proven if most is None else pc.and_(proven, pc.less_equal(counts, most))


def _count(value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise _Unsupported
    return value


_BOUNDS: dict[str, Callable[[Any, Any], Any]] = {
    "minimum": pc.greater_equal,
    "maximum": pc.less_equal,
    "exclusiveMinimum": pc.greater,
    "exclusiveMaximum": pc.less,
}
_Maker = Callable[[Mapping[str, Any]], Callable[[Any, Any], Any]]
_MAKERS: dict[str, tuple[frozenset[str], _Maker]] = {
    "boolean": (frozenset({"type"}), _boolean),
    "integer": (frozenset({"type", *_BOUNDS}), _number),
    "number": (frozenset({"type", *_BOUNDS}), _number),
    "string": (frozenset({"type", "minLength", "maxLength", "enum"}), _string),
    "array": (frozenset({"type", "items", "minItems", "maxItems"}), _array),
    "object": (frozenset({"type", "properties", "required", "additionalProperties"}), _object),
}
_KEYWORDS = frozenset({"oneOf", "anyOf"}).union(*(known for known, _ in _MAKERS.values()))
_ALL_KEYWORDS = _KEYWORDS | _OTHER_KEYWORDS
