"""Callers that log in as users of the cluster."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator

import pytest
from tests.logged import logged
from tests.unit.web.secured import MECHANISM, PASSWORD, Secured, secured_broker

from tailrace.base.caller_limits import (
    HTTP_FAILED_LOGIN_S,
    HTTP_LOGIN_AGE_S,
    HTTP_LOGINS_PER_ADDRESS_MAX,
    HTTP_RIGHTS_AGE_S,
)
from tailrace.config.error import ConfigError
from tailrace.protocol.acl_code import Operation, Resource
from tailrace.web import cluster_caller, cluster_door
from tailrace.web.audit import ServiceAudit
from tailrace.web.caller import Caller, Refusal
from tailrace.web.cluster_door import ClusterDoor

HOST = "10.0.0.1"


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with secured_broker() as broker:
        asyncio.run(broker.add_users("service", "ann", "bob", "eve"))
        asyncio.run(broker.allow("ann", "read", "topic", "orders"))
        asyncio.run(broker.allow("ann", "delete", "group", "connect-", pattern_type="prefixed"))
        asyncio.run(broker.allow("ann", "alter", "cluster", "kafka-cluster"))
        asyncio.run(broker.allow("*", "write", "topic", "all", pattern_type="prefixed"))
        asyncio.run(broker.allow("bob", "write", "topic", "all-but-bob", permission="deny"))
        yield broker


def opened(secured: Secured, mechanism: str = MECHANISM) -> ClusterDoor:
    client = {**secured.client(mechanism), "bootstrap.servers": secured.address}
    return ClusterDoor(client, ServiceAudit("test"))


def basic(user: str, password: str = PASSWORD) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def bearer(user: str, lifetime_s: float = 300) -> str:
    now_s = time.time()
    claims = {"sub": user, "iat": now_s, "exp": now_s + lifetime_s}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "none"}, claims)
    ]
    return f"Bearer {'.'.join(parts)}."


async def refusal(door: ClusterDoor, header: str, host: str = HOST) -> int:
    with pytest.raises(Refusal) as refused:
        await door.admit(header, host)
    return refused.value.status


async def outcome(door: ClusterDoor, header: str) -> int:
    try:
        await (await door.admit(header, HOST)).leave()
    except Refusal as refused:
        return refused.status
    return 200


async def rights(caller: Caller, resource: Resource, name: str) -> set[str]:
    """Return the operations that a caller may perform, by their names."""
    return {each.name for each in Operation if name in await caller.allowed(each, resource, [name])}


async def test_a_user_has_the_rights_that_its_acls_grant(secured: Secured) -> None:
    async with opened(secured) as door:
        ann = await door.admit(basic("ann"), HOST)
        assert ann.principal == "User:ann"
        assert await rights(ann, Resource.TOPIC, "orders") == {"READ", "DESCRIBE"}
        assert await rights(ann, Resource.TOPIC, "payments") == set()
        assert await rights(ann, Resource.TOPIC, ":.staging:orders") == set()
        assert await rights(ann, Resource.GROUP, "connect-out") == {"DELETE", "DESCRIBE"}
        assert await rights(ann, Resource.GROUP, "others") == set()
        assert await rights(ann, Resource.CLUSTER, "kafka-cluster") == {"ALTER", "DESCRIBE"}
        await ann.leave()


async def test_wildcards_prefixes_and_denials_count(secured: Secured) -> None:
    async with opened(secured) as door:
        bob = await door.admit(basic("bob"), HOST)
        assert await rights(bob, Resource.TOPIC, "all-of-us") == {"WRITE", "DESCRIBE"}
        assert await rights(bob, Resource.TOPIC, "all-but-bob") == {"DESCRIBE"}
        await bob.leave()


async def test_a_super_user_may_do_everything(secured: Secured) -> None:
    async with opened(secured) as door:
        service = await door.admit(basic("service"), HOST)
        assert {"READ", "WRITE", "DELETE", "ALTER_CONFIGS"} <= await rights(service, Resource.TOPIC, "no such topic")
        assert {"ALTER_CONFIGS", "DELETE"} <= await rights(service, Resource.GROUP, "connect-none")
        assert {"ALTER_CONFIGS"} <= await rights(service, Resource.CLUSTER, "kafka-cluster")
        await service.leave()


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("", id="none"),
        pytest.param("Basic x", id="malformed"),
        pytest.param(basic("ann", "wrong"), id="wrong-password"),
        pytest.param(basic("nobody"), id="unknown-user"),
        pytest.param(bearer("ann", -3600), id="expired-token"),
        pytest.param("Bearer a.b.c", id="no-token"),
    ],
)
async def test_other_credentials_are_refused(secured: Secured, header: str) -> None:
    async with opened(secured) as door:
        assert await refusal(door, header) == 401


async def test_a_token_is_as_good_as_a_password(secured: Secured) -> None:
    async with opened(secured) as door:
        ann = await door.admit(bearer("ann"), HOST)
        assert (ann.principal, await rights(ann, Resource.TOPIC, "orders")) == ("User:ann", {"READ", "DESCRIBE"})
        await ann.leave()


async def test_a_user_of_plain(secured: Secured) -> None:
    async with opened(secured, "PLAIN") as door:
        assert (await door.admit(basic("plain"), HOST)).principal == "User:plain"
        assert await refusal(door, basic("plain", "wrong")) == 401


async def test_a_wrong_password_and_an_unknown_user_take_the_same_time(secured: Secured) -> None:
    async with opened(secured) as door:
        for header in (basic("ann", "wrong"), basic("nobody", "wrong")):
            started_at_s = time.monotonic()
            assert await refusal(door, header) == 401
            assert time.monotonic() - started_at_s >= HTTP_FAILED_LOGIN_S


async def test_a_removed_user_and_a_removed_acl_count_within_seconds(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(secured) as door:
        monkeypatch.setattr(cluster_caller, "HTTP_LOGIN_AGE_S", 0.2)
        monkeypatch.setattr(cluster_caller, "HTTP_RIGHTS_AGE_S", 0.05)
        await secured.add_users("leaver")
        await secured.allow("leaver", "read", "topic", "orders")
        leaver = await door.admit(basic("leaver"), HOST)
        async with asyncio.timeout(60):
            while "orders" not in await leaver.allowed(Operation.READ, Resource.TOPIC, ["orders"]):
                await asyncio.sleep(0.01)
            await secured.revoke("leaver")
            while "orders" in await leaver.allowed(Operation.READ, Resource.TOPIC, ["orders"]):
                await asyncio.sleep(0.01)
            await leaver.leave()
            await secured.remove_user("leaver")
            while (status := await outcome(door, basic("leaver"))) == 200:
                await asyncio.sleep(0.01)
            assert status == 401


async def test_the_bounds_hold_in_seconds() -> None:
    assert HTTP_LOGIN_AGE_S <= 5
    assert HTTP_RIGHTS_AGE_S <= 1


async def test_callers_are_bounded_and_forgotten(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_door, "HTTP_CALLERS_MAX", 1)
    async with opened(secured) as door:
        ann = await door.admit(basic("ann"), HOST)
        await (await door.admit(basic("bob"), HOST)).leave()
        assert len(door._callers) == 1
        assert await rights(ann, Resource.TOPIC, "orders") == {"READ", "DESCRIBE"}
        await ann.leave()


async def test_one_login_serves_requests_that_come_together(secured: Secured) -> None:
    async with opened(secured) as door:
        callers = await asyncio.gather(*(door.admit(basic("ann"), HOST) for _ in range(20)))
        assert len(set(map(id, callers))) == 1
        for caller in callers:
            await caller.leave()


async def test_a_flood_of_wrong_passwords_locks_nobody_out(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of the flooding address goes on with its login, and one of another address can begin."""
    async with opened(secured) as door:
        monkeypatch.setattr(cluster_caller, "HTTP_LOGIN_AGE_S", 0.0)
        await (await door.admit(basic("ann"), HOST)).leave()
        guesses = [asyncio.create_task(door.admit(basic("ann", f"guess-{index}"), HOST)) for index in range(200)]
        await asyncio.sleep(0)
        await (await door.admit(basic("ann"), HOST)).leave()
        await (await door.admit(basic("bob"), "10.0.0.2")).leave()
        outcomes = await asyncio.gather(*guesses, return_exceptions=True)
        statuses = [outcome.status for outcome in outcomes if isinstance(outcome, Refusal)]
        assert (len(statuses), statuses.count(401)) == (200, HTTP_LOGINS_PER_ADDRESS_MAX)
        await (await door.admit(basic("eve"), HOST)).leave()


async def test_a_refused_login_is_in_the_audit_log_without_its_password(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(secured) as door:
        caplog.set_level("INFO")
        assert await refusal(door, basic("ann", "s3cret-guess")) == 401
        (line,) = [json.loads(record.getMessage()) for record in caplog.records if record.name == "tailrace.audit"]
        assert (line["operation"], line["principal"], line["host"], line["status"]) == ("LOGIN", "User:ann", HOST, 401)
        assert "refuses the login by SCRAM-SHA-256" in line["reason"]
        assert "s3cret-guess" not in logged(caplog)


async def test_brokers_that_are_away_are_no_reason_to_refuse_a_user() -> None:
    client = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    async with ClusterDoor(client, ServiceAudit("test")) as door:
        assert await refusal(door, basic("ann")) == 503


def test_a_service_without_a_login_cannot_check_users() -> None:
    with pytest.raises(ConfigError, match="SASL_SSL or SASL_PLAINTEXT, not PLAINTEXT"):
        ClusterDoor({"bootstrap.servers": "127.0.0.1:1"}, ServiceAudit("test"))
