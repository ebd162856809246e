"""Requests that no client should send: each has its documented code, and nothing is written."""

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.unit.registry.answers.call import (
    Call,
    avro,
    get,
    json_schema,
    post,
    protobuf,
    put,
    record,
    reference,
    register,
)
from tests.unit.registry.answers.record import Answer, ask

from tailrace.testing import Broker, SchemaRegistry

MEBIBYTE = 1024 * 1024
DEPTH = 10_000


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with (
        Broker({"group.initial.rebalance.delay.ms": 0}) as broker,
        SchemaRegistry(broker.bootstrap_servers) as running,
    ):
        yield running


def position(registry: SchemaRegistry) -> str:
    """Return the offset up to which the topic has been written and read."""
    metrics = str(ask(get("/metrics"), registry.url)["body"])
    return next(line for line in metrics.splitlines() if line.startswith("tailrace_registry_position "))


def nested_avro() -> str:
    return '{"type":"array","items":' * DEPTH + '"int"' + "}" * DEPTH


def nested_json() -> str:
    return '{"type":"array","items":' * DEPTH + "{}" + "}" * DEPTH


def nested_protobuf() -> str:
    return "message M { " * DEPTH + "}" * DEPTH


VALID = avro("int")

CASES: dict[str, tuple[Call, int, int]] = {
    "a schema of 10 MB": (register("a", record("R", {}, a=("string", "x" * 10_000_000))), 422, 42209),
    "a body of 17 MiB": (register("a", avro("x" * 17 * MEBIBYTE)), 413, 413),
    "Avro nested 10,000 times": (register("a", {"schema": nested_avro()}), 422, 42201),
    "JSON nested 10,000 times": (register("a", {"schema": nested_json(), "schemaType": "JSON"}), 422, 42201),
    "Protobuf nested 10,000 times": (register("a", protobuf(nested_protobuf())), 422, 42201),
    "a body nested 10,000 times": (post("/subjects/a/versions", "[" * DEPTH + "]" * DEPTH), 400, 400),
    "an invalid schema": (register("a", {"schema": "{"}), 422, 42201),
    "a schema of no known type": (register("a", {**VALID, "schemaType": "XML"}), 422, 42201),
    "an invalid JSON Schema": (register("a", json_schema({"type": "strings"})), 422, 42201),
    "a reference that does not exist": (
        register("a", record("R", {"references": [reference("n.B", "b")]}, b="n.B")),
        422,
        42201,
    ),
    "a reference to the schema itself": (
        register("a", record("R", {"references": [reference("n.A", "a")]}, b="n.A")),
        422,
        42201,
    ),
    "a subject of 10,000 characters": (register("x" * 10_000, VALID), 414, 414),
    "a subject that climbs": (register("%2e%2e", VALID), 400, 400),
    "a subject with a control character": (register("a%00", VALID), 400, 400),
    "a subject that is not UTF-8": (register("%ff", VALID), 400, 400),
    "a reserved subject": (register("__GLOBAL", VALID), 422, 42208),
    "an unknown media type": (post("/subjects/a/versions", VALID, content_type="text/xml"), 415, 415),
    "a media type that is none": (post("/subjects/a/versions", VALID, content_type="nonsense"), 400, 400),
    "an answer that the registry does not have": (post("/subjects/a/versions", VALID, accept="text/xml"), 406, 406),
    "no body": (Call("POST", "/subjects/a/versions"), 422, 422),
    "a body that is not JSON": (post("/subjects/a/versions", "{"), 400, 400),
    "a body that is not UTF-8": (post("/subjects/a/versions", '"\\ud800"'), 400, 400),
    "half a surrogate in a schema": (post("/subjects/a/versions", '{"schema": "\\"\\ud800\\""}'), 422, 42201),
    "an id that is too large": (register("a", {**VALID, "id": 2**31}), 400, 400),
    "an unknown level": (put("/config", {"compatibility": "SOME"}), 422, 42203),
    "an unknown mode": (put("/mode", {"mode": "SOME"}), 422, 42204),
    "a version that is none": (get("/subjects/a/versions/none"), 422, 42202),
    "a method that the path does not have": (Call("PUT", "/subjects", {}), 405, 405),
}


@pytest.mark.parametrize("name", CASES)
def test_a_bad_request_has_its_code_and_writes_nothing(registry: SchemaRegistry, name: str) -> None:
    call, status, code = CASES[name]
    before = position(registry)
    answer = ask(call, registry.url)
    assert (answer["status"], answer["body"]["error_code"]) == (status, code), answer["body"]
    assert answer["body"]["message"]
    assert position(registry) == before
    assert ask(get("/subjects?deleted=true"), registry.url)["body"] == []


def test_a_body_of_unknown_length_is_cut_off_at_the_limit(registry: SchemaRegistry) -> None:
    """A body in chunks has no length to look at before it is read."""
    answer = ask_in_chunks(registry.url, "/subjects/a/versions", b"x" * MEBIBYTE, 17)
    assert (answer["status"], answer["body"]["error_code"]) == (413, 413)


def ask_in_chunks(url: str, path: str, chunk: bytes, count: int) -> Answer:
    """Send a body whose length is not announced."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        connection.request("POST", path, iter([chunk] * count), {"Content-Type": "application/json"})
        response = connection.getresponse()
        body: Any = json.loads(response.read())
        return {"status": response.status, "body": body}
    finally:
        connection.close()


def test_a_slash_in_a_subject_is_part_of_its_name() -> None:
    """Subjects are names and not files: `..%2f..` is one like any other, as in Confluent's registry."""
    with (
        Broker({"group.initial.rebalance.delay.ms": 0}) as broker,
        SchemaRegistry(broker.bootstrap_servers) as registry,
    ):
        assert ask(register("..%2f..%2fetc", VALID), registry.url)["status"] == 200
        assert ask(get("/subjects"), registry.url)["body"] == ["../../etc"]
        assert ask(get("/subjects/..%2F..%2Fetc/versions/1"), registry.url)["body"]["subject"] == "../../etc"
