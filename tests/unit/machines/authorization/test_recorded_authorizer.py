"""The authorizer answers as Kafka's.

`authorizer_answers.json` has random ACLs and what the StandardAuthorizer of Kafka 4.3.1 answers; AuthorizerAnswers.java
asks for it. `test_authorizer.py` has the cases in which the answers differ on purpose: IPv6 addresses, names that start
with `*` or sort before it, and the name "hardcode".
"""

import json
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tailrace.machines.authorization.authorizer import Authorizer
from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.authorization.filter import AclFilter
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource

T = TypeVar("T", AclBinding, AclFilter)

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "authorizer_answers.json").read_text())


def of_row(kind: type[T], row: list[Any]) -> T:
    """Return an ACL or a filter, which have the same fields."""
    resource, name, pattern_type, principal, host, operation, permission = row
    codes = (Operation(operation), Permission(permission))
    return kind(Resource(resource), name, PatternType(pattern_type), principal, host, *codes)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_the_answers_are_those_of_kafka(case: dict[str, Any]) -> None:
    bindings = [of_row(AclBinding, row) for row in case["acls"]]
    authorizer = Authorizer(
        bindings,
        super_users=frozenset({"User:root"}),
        allow_everyone_if_no_acl_found=case["everyone"],
    )
    for principal, host, operation, resource, name, expected in case["authorize"]:
        allowed = authorizer.authorize(principal, host, Operation(operation), Resource(resource), name)
        assert allowed is expected, (principal, host, Operation(operation).name, Resource(resource).name, name)
    for principal, host, operation, resource, expected in case["by_resource_type"]:
        allowed = authorizer.authorize_by_resource_type(principal, host, Operation(operation), Resource(resource))
        assert allowed is expected, (principal, host, Operation(operation).name, Resource(resource).name)
    for filtered, expected in case["select"]:
        selection = of_row(AclFilter, filtered)
        found = {binding for binding in bindings if selection.matches(binding)}
        assert found == {of_row(AclBinding, row) for row in expected}


def test_the_recording_has_both_answers() -> None:
    for question in ("authorize", "by_resource_type"):
        assert {row[-1] for case in CASES for row in case[question]} == {True, False}
    assert any(found for case in CASES for _, found in case["select"])
