"""Compatibility of JSON Schemas: the tables in both directions and policies, sequences, and what the messages say."""

import json
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.schema.json_schema.array_case import CASES as ARRAY_CASES
from tests.unit.schema.json_schema.case import NUMBER, STRING, Case
from tests.unit.schema.json_schema.combination_case import CASES as COMBINATION_CASES
from tests.unit.schema.json_schema.object_case import CASES as OBJECT_CASES
from tests.unit.schema.json_schema.reference_case import CASES as REFERENCE_CASES
from tests.unit.schema.json_schema.value_case import CASES as VALUE_CASES

from tailrace.schema.json_schema import JsonSchema, parse
from tailrace.schema.json_schema.matching import matching_size
from tailrace.schema.language import CompatibilityPolicy

CASES = [*OBJECT_CASES, *VALUE_CASES, *ARRAY_CASES, *COMBINATION_CASES, *REFERENCE_CASES]
STRICT, LENIENT = CompatibilityPolicy.STRICT, CompatibilityPolicy.LENIENT


def schema(value: Any) -> JsonSchema:
    return parse(json.dumps(value), {})


def changes(reader: Any, writer: Any, policy: CompatibilityPolicy = STRICT) -> list[str]:
    return [f"{found.kind} {found.path}" for found in schema(reader).differences(schema(writer), policy)]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_new_version_reads_old_values(case: Case) -> None:
    lenient = case.backward if case.lenient_backward is None else case.lenient_backward
    assert changes(case.new, case.old) == case.backward
    assert changes(case.new, case.old, LENIENT) == lenient


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_an_old_version_reads_new_values(case: Case) -> None:
    lenient = case.forward if case.lenient_forward is None else case.lenient_forward
    assert changes(case.old, case.new) == case.forward
    assert changes(case.old, case.new, LENIENT) == lenient


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_version_reads_its_own_values(case: Case) -> None:
    assert changes(case.old, case.old) == []
    assert changes(case.new, case.new) == []


def test_the_names_of_the_cases_are_different() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


CLOSED = {"type": "object", "additionalProperties": False}
SEQUENCES: dict[str, tuple[list[Any], list[tuple[int, int]]]] = {
    "a closed object grows": (
        [
            CLOSED | {"properties": {"a": {"type": "integer"}}},
            CLOSED | {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
            CLOSED | {"properties": {"a": {"type": "number"}, "b": {"type": "string"}, "c": {}}},
        ],
        [],
    ),
    "a property is removed and comes back with another type": (
        [
            {"type": "object", "properties": {"a": {"type": "string"}}},
            {"type": "object", "properties": {}},
            {"type": "object", "properties": {"a": {}}},
            {"type": "object", "properties": {"a": {"type": "integer"}}},
        ],
        [(0, 3), (1, 3), (2, 3)],
    ),
    "a default is taken away once it is required": (
        [
            CLOSED | {"properties": {"a": {"type": "string"}}},
            CLOSED | {"properties": {"a": {"type": "string", "default": ""}}, "required": ["a"]},
            CLOSED | {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        ],
        [(0, 2)],
    ),
    "an enum grows and loses its first value": (
        [{"enum": ["a"]}, {"enum": ["a", "b"]}, {"enum": ["b", "c"]}],
        [(0, 2), (1, 2)],
    ),
    "alternatives are added one after the other": (
        [
            {"type": "string"},
            {"oneOf": [{"type": "string"}, {"type": "null"}]},
            {"oneOf": [{"type": "null"}, {"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "null"}, {"type": "string"}, {"type": "number"}]},
        ],
        [],
    ),
    "a bound is widened and narrowed again": (
        [{"type": "number", "maximum": 5}, {"type": "number", "maximum": 9}, {"type": "number", "maximum": 5}],
        [(1, 2)],
    ),
    "items become a tuple and a list again": (
        [
            {"type": "array", "items": {"type": "string"}},
            {"type": "array"},
            {"type": "array", "items": {"type": "integer"}},
        ],
        [(0, 2), (1, 2)],
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_each_version_of_a_sequence_is_compared_with_all_before_it(name: str) -> None:
    versions, broken = SEQUENCES[name]
    found = [(old, new) for new in range(len(versions)) for old in range(new) if changes(versions[new], versions[old])]
    assert sorted(found) == broken


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            {"type": "object", "properties": {"order": {"type": "object", "properties": {"price": NUMBER}}}},
            {"type": "object", "properties": {"order": {"type": "object", "properties": {"price": STRING}}}},
            "property 'order.price': the type changed from number to string",
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 10}}}},
            {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}}},
            "property '[].n': maximum was lowered from 10 to 5",
        ),
        (
            {"enum": ["new", "paid", "sent"]},
            {"enum": ["new"]},
            'the schema: the reader does not know "paid", "sent", which the writer allowed',
        ),
        (
            CLOSED | {"properties": {"a": {"type": "string"}}},
            CLOSED | {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]},
            "property 'b': the reader added it as required without a default; the writer's values lack it",
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "null"}]},
            {"oneOf": [{"type": "string"}]},
            "the schema: the number of alternatives fell from 2 to 1",
        ),
        (
            {"type": "string"},
            {"type": "string", "pattern": "^[a-z]+$"},
            "the schema: the reader has pattern ^[a-z]+$; the writer had none",
        ),
    ],
)
def test_a_message_names_the_property_and_what_breaks(old: Any, new: Any, message: str) -> None:
    assert [found.message for found in schema(new).differences(schema(old))] == [message]


def test_every_kind_of_change_has_a_message() -> None:
    for case in CASES:
        for found in [
            *schema(case.new).differences(schema(case.old)),
            *schema(case.old).differences(schema(case.new)),
        ]:
            assert found.message
            assert "None" not in found.message


@given(st.lists(st.lists(st.integers(0, 5), unique=True), max_size=6))
def test_a_matching_is_as_large_as_one_found_by_trying_all(edges: list[list[int]]) -> None:
    def tried(left: int, taken: frozenset[int]) -> int:
        if left == len(edges):
            return 0
        best = tried(left + 1, taken)
        for right in edges[left]:
            if right not in taken:
                best = max(best, 1 + tried(left + 1, taken | {right}))
        return best

    def partners(left: int) -> Generator[None, None, list[int]]:
        yield from ()
        return edges[left]

    search = matching_size({}, len(edges), 6, partners)
    with pytest.raises(StopIteration) as done:
        next(search)
    assert done.value.value == tried(0, frozenset())
