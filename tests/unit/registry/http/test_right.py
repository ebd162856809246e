"""What callers of the registry may do, if they are users of the cluster: every route with every right."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.unit.registry.http.right_case import CASES, GUID_OF_SECRET, LOGIN, SECRET, Case, association, avro
from tests.unit.registry.serving import serving
from tests.unit.web.secured import PASSWORD, SERVICE, Secured, login, secured_broker

from tailrace.registry.election import Member
from tailrace.registry.http.app import make_app
from tailrace.registry.http.right import RULES, topic_of
from tailrace.registry.process import Options, RegistryServer
from tailrace.registry.service import Registry

GRANTS: dict[str, list[tuple[str, str, str]]] = {
    "nothing": [],
    "others": [("all", "topic", "orders"), ("all", "group", "*"), ("all", "topic", ":.")],
    "describe": [("describe", "topic", "payments")],
    "write": [("write", "topic", "payments")],
    "delete": [("delete", "topic", "payments")],
    "alter_configs": [("alter_configs", "topic", "payments"), ("describe", "topic", "payments")],
    "blind": [("alter_configs", "topic", "payments"), ("create", "topic", "payments")],
    "cluster_describe": [("describe", "cluster", "kafka-cluster")],
    "cluster_alter_configs": [("alter_configs", "cluster", "kafka-cluster"), ("describe", "cluster", "kafka-cluster")],
    "dark": [("delete", "topic", ":.dark:")],
    "all": [("all", "topic", "*"), ("all", "cluster", "kafka-cluster")],
}
"""A user for each set of ACLs."""
MEANS: dict[str, set[str]] = {
    "nothing": set(),
    "others": set(),
    "describe": {"describe"},
    "write": {"describe", "write"},
    "delete": {"describe", "delete"},
    "alter_configs": {"describe", "alter_configs"},
    "blind": set(),
    "cluster_describe": {"cluster describe"},
    "cluster_alter_configs": {"cluster describe", "cluster alter_configs"},
    "dark": {"delete .dark"},
    "all": {
        "describe",
        "write",
        "delete",
        "alter_configs",
        "cluster describe",
        "cluster alter_configs",
        "delete .dark",
    },
}
"""What each user may do, as the cases name it."""
FREE = "free-value"
"""A subject that every user may read and write."""


async def prepare(secured: Secured) -> None:
    await secured.add_users(SERVICE, *GRANTS, "leaver")
    await secured.allow("*", "write", "topic", "free")
    for user, acls in GRANTS.items():
        for operation, resource, name in acls:
            await secured.allow(user, operation, resource, name)
    await secured.allow("others", "all", "topic", ":.", pattern_type="prefixed", permission="deny")


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with secured_broker() as broker:
        asyncio.run(prepare(broker))
        yield broker


def options(secured: Secured, topic: str) -> Options:
    return Options(secured.address, topic=topic, group_id=topic, client=secured.client(), has_cluster_users=True)


@asynccontextmanager
async def served(secured: Secured, topic: str) -> AsyncIterator[tuple[RegistryServer, httpx.AsyncClient]]:
    async with serving(options(secured, topic)) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            yield server, client


async def fill(client: httpx.AsyncClient) -> str:
    """Register the secret schema, aliases and an association; returns the GUID of the schema."""
    client.auth = login(SERVICE)
    registered = await client.post("/subjects/payments-value/versions", json=avro(SECRET))
    assert registered.json()["id"] == 1
    for path, body in (
        ("/subjects/payments/versions", avro("d")),
        ("/subjects/payments-key/versions", avro("b")),
        ("/subjects/:.dark:payments-value/versions", avro(SECRET)),
        ("/subjects/free-value/versions", avro("a")),
        ("/associations", association("payments-value", "linked")),
    ):
        assert (await client.post(path, json=body)).status_code == 200, path
    for path in ("/config/payments-value", "/config/payments-key", "/config/payments"):
        assert (await client.put(path, json={"compatibility": "NONE"})).status_code == 200
    for alias in ("alias-of-payments", "free-alias"):
        aliased = await client.put(f"/config/{alias}", json={"alias": "payments-value"})
        assert aliased.status_code == 200
    guid: str = registered.json()["guid"]
    return guid


async def send(client: httpx.AsyncClient, case: Case, user: str, guid: str) -> httpx.Response:
    path = case.path.replace(GUID_OF_SECRET, guid)
    return await client.request(case.method, path, json=case.body, auth=login(user))


def is_denied(answer: httpx.Response, case: Case) -> bool:
    if case.needs.endswith(" in results"):
        (result,) = answer.json()["results"]
        return bool(result.get("error", {}).get("error_code") == 40301)
    return answer.status_code == 403


async def test_every_route_with_every_right(secured: Secured) -> None:
    """Nothing answers more than the caller's ACLs allow, and nothing less."""
    wrong: list[str] = []
    async with served(secured, "_table") as (_, client):
        guid = await fill(client)
        for user, means in MEANS.items():
            for case in CASES:
                answer = await send(client, case, user, guid)
                may = case.needs == LOGIN or case.needs.removesuffix(" in results") in means
                title = f"{user}: {case.method} {case.path}: {answer.status_code} {answer.text[:200]}"
                if is_denied(answer, case) is may or answer.status_code in (401, 500, 503):
                    wrong.append(title)
                if "describe" not in means and SECRET in answer.text:
                    wrong.append(f"the secret is shown to {title}")
                if not means and "payments" in answer.text and answer.status_code != 403 and case.needs == LOGIN:
                    wrong.append(f"a name is shown to {title}")
    assert wrong == []


def test_every_route_has_a_rule_and_a_case() -> None:
    """A route that is added needs both; without a rule it would be closed."""
    paths = make_app(Registry("localhost:9", Member("localhost", 9))).openapi()["paths"]
    routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert routes == set(RULES)
    assert routes == {(case.method, case.route) for case in CASES}


async def test_a_route_without_a_rule_is_closed(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, ("GET", "/schemas/types"))
    async with served(secured, "_closed") as (_, client):
        assert (await client.get("/schemas/types", auth=login("all"))).status_code == 403


@pytest.mark.parametrize(
    ("subject", "topic"),
    [
        ("orders-value", "orders"),
        ("orders-key", "orders"),
        ("orders", "orders"),
        ("orders-value-value", "orders-value"),
        ("com.shop.Order", "com.shop.Order"),
        ("orders-com.shop.Order", "orders-com.shop.Order"),
        (":.staging:orders-value", ":.staging:orders"),
        (":.staging:", ":.staging:"),
        (":.:orders-key", "orders"),
        ("-value", "-value"),
    ],
)
def test_the_topic_of_a_subject(subject: str, topic: str) -> None:
    assert topic_of(subject) == topic


async def test_a_request_without_credentials_is_refused(secured: Secured) -> None:
    async with served(secured, "_refused") as (_, client):
        for path in ("/", "/subjects", "/health", "/metrics", "/openapi.json", "/no-such-path"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["error_code"]) == (401, 401)
            assert answer.headers["www-authenticate"] == 'Basic realm="schema registry"'
        wrong = await client.get("/subjects", auth=login("all", "wrong"))
        assert (wrong.status_code, wrong.json()["message"]) == (401, "Unauthorized")


async def test_lists_have_what_the_caller_may_see(secured: Secured) -> None:
    async with served(secured, "_lists") as (_, client):
        guid = await fill(client)

        async def seen(user: str, path: str) -> Any:
            return (await client.get(path, auth=login(user))).json()

        assert await seen("nothing", "/subjects") == [FREE]
        assert await seen("describe", "/subjects") == [FREE, "payments", "payments-key", "payments-value"]
        assert ":.dark:payments-value" in await seen("all", "/subjects")
        assert [each["subject"] for each in await seen("nothing", "/schemas?subjectPrefix=:*:")] == [FREE]
        assert await seen("describe", "/schemas/ids/1/subjects") == ["payments-value"]
        assert await seen("nothing", f"/schemas/guids/{guid}/ids") == []
        assert await seen("describe", f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": 1}]
        assert await seen("describe", "/contexts") == ["."]
        assert await seen("dark", "/contexts") == [".", ".dark"]
        assert await seen("nothing", "/associations/resources/-/-") == []
        assert [each["subject"] for each in await seen("describe", "/associations/resources/-/-")] == ["payments-value"]
        aliases = {alias for each in await seen("write", "/schemas?aliases=true") for alias in each.get("aliases", ())}
        assert aliases == set()


async def test_a_subject_of_another_context_is_not_found_by_its_short_name(secured: Secured) -> None:
    """Without a context, a version is looked for in every context, but only where the caller may read."""
    async with served(secured, "_context") as (_, client):
        body = avro(SECRET)
        client.auth = login(SERVICE)
        assert (await client.post("/subjects/:.dark:free-value/versions", json=body)).status_code == 200
        assert (await client.get("/subjects/free-value/versions/1")).json()["subject"] == ":.dark:free-value"
        client.auth = login("write")
        for method, path in (
            ("GET", "/subjects/free-value/versions/1"),
            ("GET", "/subjects/free-value/versions/1/schema"),
            ("POST", "/subjects/free-value"),
        ):
            answer = await client.request(method, path, json=body if method == "POST" else None)
            assert (answer.status_code, SECRET in answer.text) == (404, False)


async def test_an_error_has_the_form_of_confluent(secured: Secured) -> None:
    async with served(secured, "_form") as (_, client):
        answer = await client.post("/subjects/payments-value/versions", json=avro("a"), auth=login("describe"))
    assert answer.json() == {"error_code": 40301, "message": "User is denied operation Write on Topic: payments"}


async def test_a_follower_forwards_with_the_rights_of_the_caller(secured: Secured) -> None:
    async with served(secured, "_group") as (leader, _):
        follower = Options(
            secured.address,
            topic="_group",
            group_id="_group",
            client=secured.client(),
            has_cluster_users=True,
            can_lead=False,
        )
        async with serving(follower) as other, httpx.AsyncClient(base_url=other.url, timeout=60) as client:
            assert other.url != leader.url
            denied = await client.post("/subjects/payments-value/versions", json=avro("a"), auth=login("describe"))
            assert denied.json()["error_code"] == 40301
            denied = await client.post("/associations", json=association("payments-value", "t"), auth=login("describe"))
            assert denied.json()["error_code"] == 40301
            written = await client.post("/subjects/payments-value/versions", json=avro("a"), auth=login("write"))
            assert written.json()["id"] == 1


async def test_a_right_that_is_taken_away_ends_within_seconds(secured: Secured) -> None:
    async with served(secured, "_revoked") as (_, client):
        client.auth = login("leaver")
        path = "/subjects/secrets-value/versions"
        await secured.allow("leaver", "write", "topic", "secrets")
        async with asyncio.timeout(60):
            while (await client.post(path, json=avro("a"))).status_code != 200:
                await asyncio.sleep(0.05)
            await secured.revoke("leaver")
            while (await client.post(path, json=avro("a"))).status_code != 403:
                await asyncio.sleep(0.05)
            await secured.remove_user("leaver")
            while (await client.get("/")).status_code != 401:
                await asyncio.sleep(0.05)


async def test_denials_and_changes_are_in_the_audit_log(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tailrace.audit")
    async with served(secured, "_audited") as (_, client):
        await client.post("/subjects/payments-value/versions", json=avro("a"), auth=login("describe"))
        await client.post("/subjects/payments-value/versions", json=avro("a"), auth=login("write"))
        await client.get("/subjects/payments-value/versions", auth=login("write"))
    lines = [json.loads(each.getMessage()) for each in caplog.records if each.name == "tailrace.audit"]
    denial, change = [line for line in lines if line.get("service") == "registry"]
    assert {name: denial[name] for name in ("event", "principal", "operation", "resource_type", "name", "status")} == {
        "event": "denial",
        "principal": "User:describe",
        "operation": "WRITE",
        "resource_type": "TOPIC",
        "name": "payments",
        "status": 403,
    }
    assert (change["event"], change["principal"], change["status"]) == ("change", "User:write", 200)
    assert (change["api"], change["name"]) == (
        "POST /subjects/{subject}/versions",
        "/subjects/payments-value/versions",
    )
    assert PASSWORD not in json.dumps(lines)
