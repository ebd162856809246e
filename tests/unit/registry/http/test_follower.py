"""Two registries in one group: the follower passes every change on, and answers as the leader would."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.unit.registry.answers.call import (
    Call,
    avro,
    delete,
    get,
    look_up,
    post,
    put,
    record,
    register,
    set_level,
    set_mode,
)
from tests.unit.registry.answers.record import Answer, ask, steady

from tailrace.registry.election import Member
from tailrace.registry.http.app import make_app
from tailrace.registry.service import Registry
from tailrace.testing import Broker, SchemaRegistry

TAGS = {"tagsToAdd": [{"schemaEntity": {"entityPath": "R.a", "entityType": "sr_field"}, "tags": ["PII"]}]}
RESOURCE = {"resourceName": "t", "resourceNamespace": "cluster", "resourceId": "id-1"}
CREATED = {**RESOURCE, "associations": [{"schema": avro("int")}, {"associationType": "key", "schema": avro("long")}]}
CHANGED = {
    **RESOURCE,
    "resourceId": "id-2",
    "resourceName": "u",
    "associations": [{"subject": "u", "schema": avro("int")}],
}
BATCH = {"requests": [{**RESOURCE, "associations": [{"opType": "DELETE", "cascadeLifecycle": True}]}]}

CALLS: list[tuple[str, Call]] = [
    ("POST /subjects/{subject}/versions", register("a", record("R", a="int"))),
    ("POST /subjects/{subject}/versions", register("a%2Fb%20c", avro("int"))),
    ("POST /subjects/{subject}/versions", register(":.context:a", avro("int"))),
    ("POST /subjects/{subject}/versions", post("/contexts/.other/subjects/a/versions?normalize=true", avro("int"))),
    ("POST /subjects/{subject}/versions", register("a", {"schema": "{"})),
    ("POST /subjects/{subject}/versions", register("a", avro("int"))),
    ("POST /subjects/{subject}/versions/{version}/tags", post("/subjects/a/versions/1/tags", TAGS)),
    ("PUT /config", set_level("FULL")),
    ("PUT /config/{subject}", set_level("NONE", "a")),
    ("PUT /config/{subject}", put("/config/name", {"alias": "a"})),
    ("POST /subjects/{subject}/versions", register("name", avro("string"))),
    ("PUT /config/{subject}", set_level("SOME", "a")),
    ("DELETE /config/{subject}", delete("/config/a")),
    ("DELETE /config", delete("/config")),
    ("PUT /mode", set_mode("READONLY")),
    ("POST /subjects/{subject}/versions", register("b", avro("int"))),
    ("DELETE /mode", delete("/mode")),
    ("PUT /mode/{subject}", set_mode("IMPORT", "c")),
    ("POST /subjects/{subject}/versions", register("c", avro("bytes", id=70, version=7))),
    ("DELETE /mode/{subject}", delete("/mode/c")),
    ("DELETE /subjects/{subject}/versions/{version}", delete("/subjects/a/versions/1")),
    ("DELETE /subjects/{subject}/versions/{version}", delete("/subjects/a/versions/1?permanent=true")),
    ("DELETE /subjects/{subject}/versions/{version}", delete("/subjects/a/versions/1")),
    ("DELETE /subjects/{subject}", delete("/subjects/:.context:a")),
    ("DELETE /subjects/{subject}", delete("/subjects/:.context:a?permanent=true")),
    ("DELETE /contexts/{context}", delete("/contexts/.context")),
    ("DELETE /contexts/{context}", delete("/contexts/.other")),
    ("POST /associations", post("/associations", CREATED)),
    ("PUT /associations/resources/{resource_id}", put("/associations/resources/id-2", CHANGED)),
    ("POST /associations:batchMutate", post("/associations:batchMutate", BATCH)),
    ("DELETE /associations/resources/{resource_id}", delete("/associations/resources/id-2")),
    ("DELETE /associations/resources/{resource_id}", delete("/associations/resources/none")),
]

READS = {"POST /", "POST /subjects/{subject}", "POST /associations:batchGet"}
READ_PREFIX = "POST /compatibility/"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.fixture
def urls(broker: Broker) -> Iterator[list[str]]:
    """Start two registries in one group, and return the addresses of the leader and of the follower."""
    topic = f"_two-{uuid.uuid4().hex[:8]}"
    with ExitStack() as running:
        started = [running.enter_context(SchemaRegistry(broker.bootstrap_servers, topic=topic)) for _ in range(2)]
        yield sorted((each.url for each in started), key=lambda url: not is_leader(url))


def is_leader(url: str) -> bool:
    return bool(ask(get("/health"), url)["body"]["is_leader"])


def tell(url: str) -> list[tuple[str, Answer]]:
    return [(f"{call.method} {call.path}", steady(ask(call, url))) for _, call in CALLS]


def test_a_follower_answers_every_change_as_a_registry_alone_does(broker: Broker, urls: list[str]) -> None:
    leader, follower = urls
    assert [is_leader(url) for url in urls] == [True, False]
    given = tell(follower)
    with SchemaRegistry(broker.bootstrap_servers, topic="_alone") as alone:
        wanted = tell(alone.url)
        for (title, answer), (_, expected) in zip(given, wanted, strict=True):
            assert answer == expected, title
        for path in ("/schemas?deleted=true&subjectPrefix=:*:", "/contexts", "/config", "/mode/c?defaultToGlobal=true"):
            states = [steady(ask(get(path), url)) for url in (leader, follower, alone.url)]
            assert states[0] == states[1] == states[2], path


def test_a_follower_shows_a_change_at_once(urls: list[str]) -> None:
    """A client that talks to one registry sees what it has just done, although another registry did it."""
    _, follower = urls
    for number in range(5):
        subject = f"now-{number}"
        assert ask(register(subject, avro("int")), follower)["status"] == 200
        assert ask(look_up(subject, avro("int")), follower)["status"] == 200


def test_every_change_that_the_api_has_is_put_to_the_follower() -> None:
    paths = make_app(Registry("localhost:9092", Member("localhost", 8081))).openapi()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    changes = {each for each in routes if not each.startswith(("GET ", READ_PREFIX))} - READS
    assert {route for route, _ in CALLS} == changes
