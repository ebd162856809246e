"""The package `avro` as a second judge of compatibility."""

import json
import warnings
from typing import Any

import avro.compatibility
import avro.errors
import avro.schema
import pytest
from tests.unit.schema.avro.compatibility_case import CASES, Case

from tailrace.records.avro.type import Json

NOT_JUDGED = {
    "another scale": "the package ignores logical types",
    "a larger precision": "the package ignores logical types",
    "fixed decimals of another scale": "the package ignores logical types",
    "a decimal in an optional field": "the package ignores logical types",
    "decimals in an array": "the package ignores logical types",
    "an error and a record": "the package raises an exception",
    "an alias in the namespace": "the package does not put an alias in the namespace of its type",
    "a field's alias that the writer has too": "the package takes the first field",
}


def is_compatible(reader: Json, writer: Json) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", avro.errors.IgnoredLogicalType)
        schemas = [avro.schema.parse(json.dumps(schema)) for schema in (reader, writer)]
    checker: Any = avro.compatibility.ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    verdict = checker.get_compatibility(*schemas).compatibility
    return bool(verdict is avro.compatibility.SchemaCompatibilityType.compatible)


@pytest.mark.parametrize("case", [case for case in CASES if case.name not in NOT_JUDGED], ids=lambda case: case.name)
def test_the_judge_agrees(case: Case) -> None:
    assert is_compatible(case.one, case.other) == (case.one_reads == "")
    assert is_compatible(case.other, case.one) == (case.other_reads == "")
