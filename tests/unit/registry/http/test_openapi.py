"""The OpenAPI document of the registry, and answers that keep to it whatever is sent."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tailrace.registry.election import Member
from tailrace.registry.http.app import make_app
from tailrace.registry.service import Registry
from tailrace.testing import Broker, SchemaRegistry

EXAMPLE_COUNT_MAX = 25
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with (
        Broker({"group.initial.rebalance.delay.ms": 0}) as broker,
        SchemaRegistry(broker.bootstrap_servers) as running,
    ):
        yield running


def _document() -> dict[str, Any]:
    return make_app(Registry("localhost:9092", Member("localhost", 8081))).openapi()


api = schemathesis.openapi.from_dict(_document())
OPERATIONS = [(path, method) for path, methods in _document()["paths"].items() for method in methods]
"""Each is a test with an id of its own, which those of `api.parametrize` do not have."""


SUBJECTS = ("a", "b", ":.context:c", "a/b")
SCHEMAS = ('"int"', '"long"', '{"type":"record","name":"R","fields":[]}')


@api.hook
def map_path_parameters(_context: Any, parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Aim half of the requests at what exists, which no generator would find by chance."""
    known = {"subject": SUBJECTS, "version": ("1", "2", "latest"), "schema_id": (1, 2, 3), "context": (".context",)}
    for name, value in (parameters or {}).items():
        choice = len(str(value))
        if parameters is not None and name in known and choice % 2:
            parameters[name] = quote(str(known[name][choice // 2 % len(known[name])]), safe="")
    return parameters


@api.hook
def map_body(_context: Any, body: Any) -> Any:
    """Let half of the schemas be valid ones."""
    if isinstance(body, dict) and isinstance(body.get("schema"), str) and len(body["schema"]) % 2:
        body["schema"] = SCHEMAS[len(body["schema"]) // 2 % len(SCHEMAS)]
        body.pop("schemaType", None)
        body.pop("references", None)
        body.pop("id", None)
    return body


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_answer_is_documented(path: str, method: str, registry: SchemaRegistry) -> None:
    @settings(
        max_examples=EXAMPLE_COUNT_MAX,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=api[path][method].as_strategy())
    def call(case: "schemathesis.Case[Any]") -> None:
        case.call_and_validate(base_url=registry.url, checks=CHECKS)

    call()


def test_the_document_names_every_route_and_every_error() -> None:
    document = _document()
    assert {"/subjects/{subject}/versions", "/schemas/ids/{schema_id}", "/associations", "/config", "/mode"} <= set(
        document["paths"]
    )
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert {"400", "404", "405", "414", "415", "422", "500"} <= set(operation["responses"]), (method, path)
