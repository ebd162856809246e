"""Users with SCRAM credentials: set, removed and described."""

import asyncio
import logging
from typing import Any

import pytest
from tests.logged import logged
from tests.unit.sample import BrokerInMemory, replacing
from tests.unit.server.handlers.peer import Peer, peer

from tailrace.machines.controller.entity import entity_name
from tailrace.machines.controller.record import ConfigKind
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUser,
)
from tailrace.security.scram.credential import make_credential, parse_credential
from tailrace.security.scram.mechanism import SCRAM_SHA_256, SCRAM_SHA_512, Mechanism
from tailrace.server.handlers import scram

SALT = b"pinch"


def setting(
    name: str, mechanism: Mechanism = SCRAM_SHA_256, iterations: int = 4096, **changes: Any
) -> AlterUserScramCredentialsRequestUpsertion:
    fields = {
        "mechanism": mechanism.code,
        "salt": SALT,
        "salted_password": mechanism.salted_password("secret", SALT, iterations) if iterations > 0 else b"x" * 32,
        "iterations": iterations,
        **changes,
    }
    return AlterUserScramCredentialsRequestUpsertion(name=name, **fields)


def removing(name: str, mechanism: int = SCRAM_SHA_256.code) -> AlterUserScramCredentialsRequestDeletion:
    return AlterUserScramCredentialsRequestDeletion(name=name, mechanism=mechanism)


async def alter(
    client: Peer, *asked: AlterUserScramCredentialsRequestUpsertion | AlterUserScramCredentialsRequestDeletion
) -> dict[str, int]:
    upsertions = [one for one in asked if isinstance(one, AlterUserScramCredentialsRequestUpsertion)]
    deletions = [one for one in asked if isinstance(one, AlterUserScramCredentialsRequestDeletion)]
    response = await client.ask(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions))
    assert all((result.error_message is None) == (result.error_code == 0) for result in response.results)
    return {result.user: result.error_code for result in response.results}


async def describe(client: Peer, *names: str) -> dict[str, Any]:
    users = [DescribeUserScramCredentialsRequestUser(name=name) for name in names] or None
    response = await client.ask(DescribeUserScramCredentialsRequest(users=users))
    assert response.error_code == 0
    return {
        result.user: result.error_code or [(info.mechanism, info.iterations) for info in result.credential_infos]
        for result in response.results
    }


async def test_a_credential_is_stored_as_kafka_stores_it() -> None:
    async with peer() as client:
        assert await alter(client, setting("alice", SCRAM_SHA_512, 8192)) == {"alice": 0}
        configs = client.broker.image.config(ConfigKind.USER, entity_name("alice"))
        assert parse_credential(configs["SCRAM-SHA-512"]) == make_credential(SCRAM_SHA_512, "secret", SALT, 8192)
        assert configs["SCRAM-SHA-512"].startswith("salt=cGluY2g=,stored_key=")
        assert await describe(client) == {"alice": [(2, 8192)]}


async def test_a_user_has_one_credential_for_each_mechanism() -> None:
    async with peer() as client:
        await alter(client, setting("alice"))
        await alter(client, setting("alice", SCRAM_SHA_512), setting("bob/ü"))
        await alter(client, setting("alice", iterations=5000))
        assert await describe(client) == {"alice": [(1, 5000), (2, 4096)], "bob/ü": [(1, 4096)]}
        assert await alter(client, removing("alice"), removing("bob/ü")) == {"alice": 0, "bob/ü": 0}
        assert await describe(client) == {"alice": [(2, 4096)]}
        assert await alter(client, removing("alice", 2)) == {"alice": 0}
        assert await describe(client) == {}
        assert client.broker.image.configured(ConfigKind.USER) == []


async def test_quotas_of_a_user_stay_when_its_credential_changes() -> None:
    async with peer() as client:
        write = client.broker.controller.write_config
        await write(ConfigKind.USER, "alice", replacing({"producer_byte_rate": "1"}), validate_only=False)
        assert await describe(client) == {}
        await alter(client, setting("alice"))
        await alter(client, removing("alice"))
        assert client.broker.image.config(ConfigKind.USER, "alice") == {"producer_byte_rate": "1"}
        assert await describe(client, "alice") == {"alice": ErrorCode.RESOURCE_NOT_FOUND}


async def test_a_credential_that_cannot_be_read_hides_no_other() -> None:
    async with peer() as client:
        await alter(client, setting("alice"))
        write = client.broker.controller.write_config
        await write(ConfigKind.USER, "bob", replacing({"SCRAM-SHA-256": "nonsense"}), validate_only=False)
        assert await describe(client) == {"alice": [(1, 4096)]}
        assert await alter(client, removing("bob")) == {"bob": 0}


async def test_some_users_are_described() -> None:
    async with peer() as client:
        await alter(client, setting("alice"), setting("bob"))
        assert await describe(client, "alice", "nobody", "bob", "bob") == {
            "alice": [(1, 4096)],
            "nobody": ErrorCode.RESOURCE_NOT_FOUND,
            "bob": ErrorCode.DUPLICATE_RESOURCE,
        }


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (setting("", iterations=4096), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (setting("u" * 1025), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (setting("u", mechanism=SCRAM_SHA_256._replace(code=0)), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (setting("u", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (setting("u", iterations=0), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (setting("u", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (setting("u", salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (setting("u", salt=b"s" * 1025), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (setting("u", salted_password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (setting("u", salted_password=b"short"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (removing(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (removing("u", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (removing("u"), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
async def test_what_is_not_acceptable_changes_nothing(asked: Any, code: ErrorCode) -> None:
    async with peer() as client:
        assert await alter(client, asked, setting("other")) == {asked.name: code, "other": 0}
        assert await describe(client) == {"other": [(1, 4096)]}


async def test_a_user_is_altered_once_in_a_request() -> None:
    async with peer() as client:
        await alter(client, setting("alice"))
        twice = ErrorCode.DUPLICATE_RESOURCE
        assert await alter(client, setting("bob"), setting("bob", SCRAM_SHA_512)) == {"bob": twice}
        assert await alter(client, removing("alice"), setting("alice", SCRAM_SHA_512)) == {"alice": twice}
        # As in Kafka, the first problem of a user is told.
        missing = ErrorCode.RESOURCE_NOT_FOUND
        assert await alter(client, removing("bob"), removing("bob")) == {"bob": missing}
        assert await describe(client) == {"alice": [(1, 4096)]}


async def test_the_errors_of_a_request_hold_no_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error for each of 100,000 users was kept until the answer, with all that its frames held."""
    errors: list[ApiError | None] = []

    def altered(outcomes: dict[str, ApiError | None]) -> AlterUserScramCredentialsResponse:
        errors.extend(outcomes.values())
        return AlterUserScramCredentialsResponse()

    monkeypatch.setattr(scram, "_altered", altered)
    async with peer() as client:
        await alter(client, removing("absent"), setting("", iterations=1))
        assert [error and (error.code, error.__traceback__) for error in errors] == [
            (ErrorCode.RESOURCE_NOT_FOUND, None),
            (ErrorCode.UNACCEPTABLE_CREDENTIAL, None),
        ]


async def test_credentials_outlive_the_broker() -> None:
    machine = BrokerInMemory()
    async with peer(machine) as client:
        await alter(client, setting("alice"))
        broker = client.broker
        await machine.kill(broker)
    async with peer(machine) as client:
        assert await describe(client) == {"alice": [(1, 4096)]}


async def test_two_writers_do_not_lose_a_change() -> None:
    async with peer() as client:
        await asyncio.gather(*(alter(client, setting("alice", one)) for one in (SCRAM_SHA_256, SCRAM_SHA_512)))
        assert await describe(client) == {"alice": [(1, 4096), (2, 4096)]}


async def test_no_key_of_a_credential_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "tailrace"):
        async with peer() as client:
            await alter(client, setting("alice"))
            text = client.broker.image.config(ConfigKind.USER, "alice")["SCRAM-SHA-256"]
            await alter(client, removing("alice"))
    log = logged(caplog)
    assert "changed configs of user alice: SCRAM-SHA-256=***" in log
    assert "changed configs of user alice: SCRAM-SHA-256 removed" in log
    values = [part.partition("=")[2] for part in text.split(",")[:3]]
    assert len(values) == 3
    assert not [value for value in values if value in log]
