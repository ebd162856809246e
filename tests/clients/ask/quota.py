"""Quotas of clients: what is accepted and refused, what is found, and the answers to a client over its quota."""

from __future__ import annotations

import uuid
from typing import Any

from tests.clients.ask.asker import Asker, produce_fields, question
from tests.clients.raw import batch

Parts = dict[str, str | None]
LARGE_BYTES = 200_000


def alter(asker: Asker, parts: Parts, quotas: dict[str, float | None], *, validate_only: bool = False) -> Any:
    """Change quotas of one entity: the code and the message."""
    entry = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in parts.items()],
        "ops": [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in quotas.items()],
    }
    answer = asker.fields("AlterClientQuotas", 1, entries=[entry], validate_only=validate_only)
    (outcome,) = answer["entries"]
    message = outcome["error_message"]
    # Kafka 4.3 has lost a space in one message.
    return [outcome["error_code"], None if message is None else message.replace("shouldnot", "should not")]


def describe(asker: Asker, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    """The entities that match, sorted, with their quotas."""
    asked = [{"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components]
    answer = asker.fields("DescribeClientQuotas", 1, components=asked, strict=strict)
    return sorted(
        [
            sorted([part["entity_type"], part["entity_name"] or "<default>"] for part in entry["entity"]),
            sorted([value["key"], value["value"]] for value in entry["values"]),
        ]
        for entry in answer["entries"]
    )


@question
def refusals(asker: Asker) -> Any:
    """AlterClientQuotas v1 that is refused: the code and the message."""
    user: Parts = {"user": "ask"}
    return {
        "unknown key": alter(asker, user, {"foo": 1.0}),
        "key of an address": alter(asker, user, {"connection_creation_rate": 1.0}),
        "key of a user": alter(asker, {"ip": "127.0.0.9"}, {"producer_byte_rate": 1.0}),
        "zero": alter(asker, user, {"producer_byte_rate": 0.0}),
        "negative": alter(asker, user, {"request_percentage": -1.0}),
        "fraction": alter(asker, user, {"consumer_byte_rate": 1.5}),
        "too large": alter(asker, user, {"producer_byte_rate": 1e19}),
        "too many connections": alter(asker, {"ip": "127.0.0.9"}, {"connection_creation_rate": 3e9}),
        "no entity": alter(asker, {}, {"producer_byte_rate": 1.0}),
        "unknown type": alter(asker, {"foo": "x"}, {"producer_byte_rate": 1.0}),
        "empty name": alter(asker, {"user": ""}, {"producer_byte_rate": 1.0}),
        "user and ip": alter(asker, {"user": "ask", "ip": "127.0.0.9"}, {"producer_byte_rate": 1.0}),
        "removal of an unknown key": alter(asker, user, {"foo": None}),
        "only checked": alter(asker, user, {"producer_byte_rate": 1.0}, validate_only=True),
        "found": describe(asker, ("user", 0, "ask")),
    }


@question
def entities(asker: Asker) -> Any:
    """Quotas of a user, with a client id and with the default one, as filters find them."""
    name = f"ask/{uuid.uuid4().hex[:8]}"
    alone: Parts = {"user": name}
    with_client: Parts = {"user": name, "client-id": "c"}
    with_default: Parts = {"user": name, "client-id": None}
    set_codes = [
        alter(asker, alone, {"producer_byte_rate": 1e9, "request_percentage": 250.5}),
        alter(asker, with_client, {"consumer_byte_rate": 1e9}),
        alter(asker, with_default, {"controller_mutation_rate": 1000.5}),
    ]

    def found(*components: tuple[str, int, str | None], strict: bool = False) -> Any:
        return [
            [[[kind, part.replace(name, "NAME")] for kind, part in parts], values]
            for parts, values in describe(asker, *components, strict=strict)
        ]

    answer = {
        "set": set_codes,
        "user": found(("user", 0, name)),
        "user, strictly": found(("user", 0, name), strict=True),
        "user with any client id": found(("user", 0, name), ("client-id", 2, None)),
        "user with the default client id": found(("user", 0, name), ("client-id", 1, None)),
        "removed": [
            alter(asker, alone, {"producer_byte_rate": None, "request_percentage": None}),
            alter(asker, with_client, {"consumer_byte_rate": None}),
            alter(asker, with_default, {"controller_mutation_rate": None}),
        ],
    }
    return {**answer, "left": found(("user", 0, name))}


@question
def throttled(asker: Asker) -> Any:
    """Produce v8 and CreateTopics v6, v6, v5 of a client with tiny quotas: the code, and is there a throttle time?"""
    client_id = f"ask-{uuid.uuid4().hex[:8]}"
    topic = asker.topic()
    parts: Parts = {"client-id": client_id}
    quotas: dict[str, float | None] = {
        "producer_byte_rate": 1e4,
        "consumer_byte_rate": 1e3,
        "controller_mutation_rate": 0.01,
    }
    alter(asker, parts, quotas)
    fields = produce_fields(topic, batch([b"x" * LARGE_BYTES]), -1, 0)
    with asker.wire() as wire:
        wire.send_frame(wire.frame("Produce", 8, fields, client_id))
        produced = wire.answer("Produce", 8)
    created = [_create(asker, client_id, version) for version in (6, 6, 5)]
    alter(asker, parts, dict.fromkeys(quotas))
    assert not isinstance(produced, str)
    return {
        "produced": [
            produced["responses"][0]["partition_responses"][0]["error_code"],
            produced["throttle_time_ms"] > 0,
        ],
        "created": created,
    }


def _create(asker: Asker, client_id: str, version: int) -> Any:
    name = f"ask-{uuid.uuid4().hex[:8]}"
    topic = {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
    with asker.wire() as wire:
        fields = {"topics": [topic], "timeout_ms": 60_000, "validate_only": False}
        wire.send_frame(wire.frame("CreateTopics", version, fields, client_id))
        answer = wire.answer("CreateTopics", version)
    assert not isinstance(answer, str)
    found = answer["topics"][0]
    return [found["error_code"], found["error_message"], answer["throttle_time_ms"] > 0]
