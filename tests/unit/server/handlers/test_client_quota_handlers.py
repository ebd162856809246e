"""DescribeClientQuotas and AlterClientQuotas: what is stored, shown and refused."""

from typing import Any

from tests.unit.server.handlers.peer import Peer, peer

from tailrace.machines.controller.record import ConfigKind
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages import client_quota

Parts = dict[str, str | None]


def entry(parts: Parts, quotas: dict[str, float | None]) -> client_quota.AlterClientQuotasRequestEntry:
    return client_quota.AlterClientQuotasRequestEntry(
        entity=[
            client_quota.AlterClientQuotasRequestEntity(entity_type=entity_type, entity_name=name)
            for entity_type, name in parts.items()
        ],
        ops=[
            client_quota.AlterClientQuotasRequestOp(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ],
    )


async def alter(client: Peer, *entries: Any, validate_only: bool = False) -> list[tuple[int, str | None]]:
    request = client_quota.AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    response = await client.ask(request)
    return [(outcome.error_code, outcome.error_message) for outcome in response.entries]


async def describe(
    client: Peer, *components: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[Parts, dict[str, float]]]:
    asked = [
        client_quota.DescribeClientQuotasRequestComponent(entity_type=name, match_type=kind, match=match)
        for name, kind, match in components
    ]
    response = await client.ask(client_quota.DescribeClientQuotasRequest(components=asked, strict=strict))
    assert response.error_code == 0
    return [
        (
            {part.entity_type: part.entity_name for part in found.entity},
            {value.key: value.value for value in found.values},
        )
        for found in response.entries
    ]


async def test_quotas_are_set_shown_and_removed() -> None:
    async with peer() as client:
        outcomes = await alter(
            client,
            entry({"user": "al/ice"}, {"producer_byte_rate": 1024.0, "request_percentage": 12.5}),
            entry({"user": "al/ice", "client-id": None}, {"consumer_byte_rate": 5.0}),
            entry({"ip": "::1"}, {"connection_creation_rate": 3.0}),
        )
        assert outcomes == [(0, None)] * 3
        assert await describe(client) == [
            ({"user": "al/ice"}, {"producer_byte_rate": 1024.0, "request_percentage": 12.5}),
            ({"user": "al/ice", "client-id": None}, {"consumer_byte_rate": 5.0}),
            ({"ip": "::1"}, {"connection_creation_rate": 3.0}),
        ]
        assert await describe(client, ("user", 0, "al/ice"), strict=True) == [
            ({"user": "al/ice"}, {"producer_byte_rate": 1024.0, "request_percentage": 12.5})
        ]
        removal = entry({"user": "al/ice"}, {"producer_byte_rate": None, "consumer_byte_rate": None})
        assert await alter(client, removal) == [(0, None)]
        assert await describe(client, ("user", 2, None), strict=True) == [
            ({"user": "al/ice"}, {"request_percentage": 12.5})
        ]
        assert await alter(client, entry({"user": "al/ice"}, {"request_percentage": None})) == [(0, None)]
        assert client.broker.image.configured(ConfigKind.USER) == []


async def test_an_entity_that_is_refused_does_not_stop_the_others() -> None:
    async with peer() as client:
        outcomes = await alter(
            client,
            entry({"user": "a"}, {"producer_byte_rate": 1.5, "consumer_byte_rate": 3.0}),
            entry({"user": "b"}, {"producer_byte_rate": 2.0}),
            entry({"user": "b"}, {"producer_byte_rate": 3.0}),
            entry({"ip": "host"}, {"connection_creation_rate": 3.0}),
            entry({}, {"producer_byte_rate": 3.0}),
        )
        assert [code for code, _ in outcomes] == [42, 0, 42, 42, 42]
        assert outcomes[0][1] == "producer_byte_rate cannot be a fractional value."
        assert await describe(client) == [({"user": "b"}, {"producer_byte_rate": 2.0})]


async def test_a_change_that_is_only_checked_changes_nothing() -> None:
    async with peer() as client:
        outcomes = await alter(
            client,
            entry({"user": "a"}, {"producer_byte_rate": 1.0}),
            entry({"user": "b"}, {"producer_byte_rate": 0.0}),
            validate_only=True,
        )
        assert outcomes == [(0, None), (ErrorCode.INVALID_REQUEST, "Quota producer_byte_rate must be greater than 0")]
        assert await describe(client) == []


async def test_a_quota_given_twice_is_refused() -> None:
    twice = entry({"user": "a"}, {"producer_byte_rate": 1.0})
    twice.ops *= 2
    async with peer() as client:
        assert await alter(client, twice) == [(ErrorCode.INVALID_REQUEST, "Duplicate quota key")]


async def test_the_credentials_of_a_user_are_neither_shown_nor_changed() -> None:
    """They are configs of the user like its quotas."""
    async with peer() as client:
        secret = {"SCRAM-SHA-256": "salt=c2FsdA==,stored_key=a2V5,server_key=a2V5,iterations=4096"}
        await client.broker.controller.write_config(ConfigKind.USER, "alice", lambda _: secret, validate_only=False)
        assert await describe(client) == []
        attempts = [
            entry({"user": "alice"}, {"SCRAM-SHA-256": None, "producer_byte_rate": 7.0}),
            entry({"user": "alice"}, {"SCRAM-SHA-256": 1.0}),
        ]
        for attempt in attempts:
            await alter(client, attempt)
        assert client.broker.image.config(ConfigKind.USER, "alice") == {**secret, "producer_byte_rate": "7"}
        assert await describe(client) == [({"user": "alice"}, {"producer_byte_rate": 7.0})]
        await alter(client, entry({"user": "alice"}, {"producer_byte_rate": None}))
        assert client.broker.image.config(ConfigKind.USER, "alice") == secret
