"""Associations through the client of confluent-kafka, and batches, which that client does not have."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    AssociationCreateOrUpdateInfo,
    AssociationCreateOrUpdateRequest,
    Schema,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from tests.unit.registry.answers.call import avro, get, post, register
from tests.unit.registry.answers.record import Answer, ask

from tailrace.testing import Broker, SchemaRegistry


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.fixture
def registry(broker: Broker, request: pytest.FixtureRequest) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(broker.bootstrap_servers, topic=f"_{request.node.name}"[:200]) as running:
        yield running


def created(*, name: str = "orders", identity: str = "id-1", schema: str = '"int"') -> AssociationCreateOrUpdateRequest:
    value = AssociationCreateOrUpdateInfo(association_type="value", schema=Schema(schema, "AVRO"))
    return AssociationCreateOrUpdateRequest(
        resource_name=name,
        resource_namespace="cluster",
        resource_id=identity,
        resource_type="topic",
        associations=[value],
    )


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as connected:
        yield connected


def test_a_client_creates_finds_and_deletes_associations(client: SchemaRegistryClient) -> None:
    answer = client.create_association(created())
    assert [(each.subject, each.frozen) for each in answer.associations or []] == [(":.cluster:orders-value", True)]
    found = client.get_associations_by_resource_name("orders", "cluster", "topic", ["value"])
    assert [(each.resource_id, each.subject, each.frozen) for each in found] == [
        ("id-1", ":.cluster:orders-value", True)
    ]
    assert client.get_associations_by_resource_name("orders", "-") == found
    assert client.get_associations_by_resource_name("orders", "cluster", association_types=["key"]) == []
    client.delete_associations("id-1", "topic", ["value"], cascade_lifecycle=True)
    assert client.get_associations_by_resource_name("orders", "cluster") == []
    assert client.get_subjects() == []


def test_an_association_that_does_not_exist_cannot_be_deleted(client: SchemaRegistryClient) -> None:
    with pytest.raises(SchemaRegistryError) as raised:
        client.delete_associations("none")
    assert raised.value.error_code == 40410


def test_a_batch_changes_each_resource_on_its_own(registry: SchemaRegistry) -> None:
    ask(register("s", avro("int")), registry.url)
    good = {"opType": "UPSERT", "subject": "s", "lifecycle": "WEAK"}
    bad = {"opType": "CREATE", "subject": "none", "lifecycle": "WEAK"}
    requests = [
        {"resourceName": name, "resourceNamespace": "cluster", "resourceId": f"id-{name}", "associations": [operation]}
        for name, operation in (("a", good), ("b", bad))
    ]
    answer = ask(post("/associations:batchMutate", {"requests": requests}), registry.url)
    first, second = answer["body"]["results"]
    assert [each["subject"] for each in first["result"]["associations"]] == ["s"]
    assert second["error"]["error_code"] == 40907
    assert searched(registry, {"resourceId": "id-a"})["associations"][0]["schema"]["id"] == 1
    assert searched(registry, {"resourceName": "a", "resourceNamespace": "cluster"})["resourceId"] == "id-a"
    assert "associations" not in searched(registry, {"resourceId": "id-b"})


def searched(registry: SchemaRegistry, request: dict[str, str]) -> Any:
    answer = ask(post("/associations:batchGet?includeSchemas=true", {"requests": [request]}), registry.url)
    return answer["body"]["results"][0]["result"]


def test_a_trial_run_writes_nothing(registry: SchemaRegistry) -> None:
    body = {"resourceName": "t", "resourceNamespace": "cluster", "associations": [{"schema": avro("int")}]}
    assert ask(post("/associations?dryRun=true", body), registry.url)["status"] == 200
    assert ask(get("/subjects?deleted=true"), registry.url)["body"] == []
    assert ask(get("/associations/resources/cluster/-"), registry.url)["body"] == []
    assert ask(post("/associations", body), registry.url)["body"]["error_code"] == 42212


def test_the_schemas_of_a_batch_are_bounded(client: SchemaRegistryClient, registry: SchemaRegistry) -> None:
    """A thousand equal requests for a schema of a megabyte were answered with a gigabyte."""
    text = json.dumps({"type": "fixed", "name": "F", "size": 1, "doc": "x" * 900_000})
    client.create_association(created(schema=text))
    found = {"resourceName": "orders", "resourceNamespace": "cluster"}

    def batch(count: int, path: str = "/associations:batchGet?includeSchemas=true") -> Answer:
        return ask(post(path, {"requests": [found] * count}), registry.url)

    assert len(batch(30)["body"]["results"]) == 30
    refused = batch(100)
    assert refused["status"] == 422
    assert refused["body"]["message"] == (
        "Invalid association: requests: the schemas that the first 38 find have more than 33554432 bytes; "
        "send fewer in one batch"
    )
    assert len(batch(1_000, "/associations:batchGet")["body"]["results"]) == 1_000
    assert "there are 1001 of at most 1000" in batch(1_001, "/associations:batchGet")["body"]["message"]
