"""Bodies with many JSON values, and with many errors."""

from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from pydantic import TypeAdapter, ValidationError

from tailrace.base.limits import HTTP_JSON_VALUES_MAX
from tailrace.connect.http import connector, offset, plugin, worker
from tailrace.connect.http.call import Scalar
from tailrace.connect.http.connector import NewConnector
from tailrace.connect.http.offset import NewOffsets
from tailrace.registry.http import association, compatibility, schema, scope, server, subject
from tailrace.registry.http.association_model import AssociationsRequest, BatchRequest, BatchSearchRequest
from tailrace.registry.http.model import ConfigRequest, SchemaRequest, TagRequest
from tailrace.web.body import BoundedRoute
from tailrace.web.member import Members

COUNT = 1_000
LIST = [0] * COUNT
LISTS: list[Any] = [[]] * COUNT
OBJECT: dict[str, Any] = {str(index): [] for index in range(COUNT)}

MANY_ERRORS = [
    (SchemaRequest, {"references": LIST}, ("references", 0)),
    (SchemaRequest, {"metadata": {"tags": OBJECT | {"0": LISTS}}}, ("metadata", "tags", "0", 0)),
    (SchemaRequest, {"metadata": {"properties": OBJECT}}, ("metadata", "properties", "0")),
    (SchemaRequest, {"metadata": {"sensitive": LISTS}}, ("metadata", "sensitive", 0)),
    (SchemaRequest, {"ruleSet": {"domainRules": LIST}}, ("ruleSet", "domainRules", 0)),
    (SchemaRequest, {"ruleSet": {"domainRules": [{"params": OBJECT}]}}, ("ruleSet", "domainRules", 0, "params", "0")),
    (SchemaRequest, {"schemaTagsToAdd": LIST}, ("schemaTagsToAdd", 0)),
    (TagRequest, {"tagsToAdd": LIST}, ("tagsToAdd", 0)),
    (TagRequest, {"rulesToRemove": LISTS}, ("rulesToRemove", 0)),
    (ConfigRequest, {"overrideRuleSet": {"encodingRules": LIST}}, ("overrideRuleSet", "encodingRules", 0)),
    (AssociationsRequest, {"associations": LIST}, ("associations", 0)),
    (BatchRequest, {"requests": LIST}, ("requests", 0)),
    (BatchRequest, {"requests": [{"associations": LIST}]}, ("requests", 0, "associations", 0)),
    (BatchSearchRequest, {"requests": [{"associationTypes": LISTS}]}, ("requests", 0, "associationTypes", 0)),
    (NewOffsets, {"offsets": LIST}, ("offsets", 0)),
    (NewConnector, {"config": OBJECT}, ("config", "0", "str")),
    (NewConnector, {"config": {}, **OBJECT}, ("0",)),
    (Members[Scalar], OBJECT, ("0", "str")),
]


@pytest.mark.parametrize(("model", "body", "place"), MANY_ERRORS)
def test_the_errors_of_a_body_do_not_grow_with_it(model: Any, body: Any, place: tuple[str | int, ...]) -> None:
    """Each element had an error of a kilobyte: a body of 800 KB took half a gigabyte."""
    with pytest.raises(ValidationError) as error:
        TypeAdapter(model).validate_python(body)
    assert error.value.error_count() <= len(Scalar.__args__)
    assert error.value.errors()[0]["loc"] == place


def test_members_are_converted() -> None:
    assert TypeAdapter(Members[int]).validate_python({"a": "1", "b": 2}) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "module", [connector, offset, plugin, worker, association, compatibility, schema, scope, server, subject]
)
def test_every_route_counts_the_values_of_its_bodies(module: Any) -> None:
    assert {type(route) for route in module.router.routes} == {BoundedRoute}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ([0] * (HTTP_JSON_VALUES_MAX - 2), 200),
        ([0] * (HTTP_JSON_VALUES_MAX - 1), 413),
        ({str(index): None for index in range(HTTP_JSON_VALUES_MAX - 1)}, 413),
        ([[0] * 1_000] * 100, 413),
        ("[" * HTTP_JSON_VALUES_MAX, 200),
    ],
)
async def test_a_body_with_too_many_values_is_refused(body: Any, status: int) -> None:
    """Objects of several hundred bytes were made of values of three."""
    router = APIRouter(route_class=BoundedRoute)

    @router.post("/")
    async def take(value: dict[str, Any]) -> None:
        assert value

    app = FastAPI()
    app.include_router(router)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://registry.example") as client:
        answer = await client.post("/", json={"value": body})
    assert answer.status_code == status
    if status == 413:
        assert answer.json()["detail"].startswith(f"The request has more than {HTTP_JSON_VALUES_MAX} JSON values")
