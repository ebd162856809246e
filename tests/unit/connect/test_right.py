"""What callers of the Connect service may do, if they are users of the cluster: every route with every right."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.unit.connect.right_case import CASES, LOGIN, NAME, SECRET, Case, config
from tests.unit.web.secured import PASSWORD, SERVICE, Secured, login, secured_broker

from tailrace.connect.http.app import make_app
from tailrace.connect.http.right import RULES
from tailrace.connect.service import ConnectService, ServiceOptions
from tailrace.connect.store import TopicNames
from tailrace.web.entrance import make_door

GRANTS: dict[str, list[tuple[str, str, str]]] = {
    "nothing": [],
    "others": [("all", "group", "connect-other"), ("all", "topic", "foreign"), ("all", "topic", NAME)],
    "consumer": [("read", "group", "*")],
    "describe": [("describe", "group", f"connect-{NAME}")],
    "describe_configs": [("describe", "group", f"connect-{NAME}"), ("describe_configs", "group", f"connect-{NAME}")],
    "alter_configs": [("describe", "group", f"connect-{NAME}"), ("alter_configs", "group", f"connect-{NAME}")],
    "delete": [("delete", "group", f"connect-{NAME}")],
    "cluster_describe": [("alter", "cluster", "kafka-cluster")],
    "cluster_alter_configs": [("describe", "cluster", "kafka-cluster"), ("alter_configs", "cluster", "kafka-cluster")],
}
"""A user for each set of ACLs."""
MEANS: dict[str, set[str]] = {
    "nothing": set(),
    "others": set(),
    "consumer": {"describe"},
    "describe": {"describe"},
    "describe_configs": {"describe", "describe_configs"},
    "alter_configs": {"describe", "describe_configs", "alter_configs"},
    "cluster_describe": {"cluster describe"},
    "cluster_alter_configs": {"cluster describe", "cluster describe_configs", "cluster alter_configs"},
    "delete": {"describe", "delete"},
}
"""What each user may do, as the cases name it."""


async def prepare(secured: Secured) -> None:
    await secured.add_users(SERVICE, *GRANTS)
    await secured.allow("*", "all", "topic", "free")
    for user, acls in GRANTS.items():
        for operation, resource, name in acls:
            await secured.allow(user, operation, resource, name)


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with secured_broker() as broker:
        asyncio.run(prepare(broker))
        yield broker


@asynccontextmanager
async def served(secured: Secured, folder: Path, name: str) -> AsyncIterator[httpx.AsyncClient]:
    names = TopicNames(f"configs-{name}", f"status-{name}", f"offsets-{name}")
    client = {**secured.client(), "bootstrap.servers": secured.address}
    service = ConnectService(ServiceOptions(client, folder, names.configs, names), "127.0.0.1:8083")
    app = make_app(service, make_door(None, client, "connect"))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://connect.example", timeout=60) as client_:
            yield client_


async def create(client: httpx.AsyncClient) -> None:
    body = {"name": NAME, "config": config("free"), "initial_state": "STOPPED"}
    created = await client.post("/connectors", json=body, auth=login(SERVICE))
    assert created.status_code in (201, 409), created.text


async def send(client: httpx.AsyncClient, case: Case, user: str) -> httpx.Response:
    return await client.request(case.method, case.path, json=case.body, auth=login(user))


async def test_every_route_with_every_right(secured: Secured, tmp_path: Path) -> None:
    """Nothing answers more than the caller's ACLs allow, and nothing less."""
    wrong: list[str] = []
    async with served(secured, tmp_path, "table") as client:
        await create(client)
        for user, means in MEANS.items():
            for case in CASES:
                answer = await send(client, case, user)
                may = case.needs == LOGIN or case.needs in means
                title = f"{user}: {case.method} {case.path}: {answer.status_code} {answer.text[:200]}"
                if (answer.status_code == 403) is may or answer.status_code in (401, 500, 503):
                    wrong.append(title)
                if "describe_configs" not in means and SECRET in answer.text:
                    wrong.append(f"the secret is shown to {title}")
                if "describe" not in means and case.needs == LOGIN and NAME in answer.text:
                    wrong.append(f"a name is shown to {title}")
    assert wrong == []


def test_every_route_has_a_rule_and_a_case(tmp_path: Path) -> None:
    """A route that is added needs both; without a rule it would be closed."""
    options = ServiceOptions({"bootstrap.servers": "localhost:9"}, tmp_path)
    paths = make_app(ConnectService(options, "localhost:8083")).openapi()["paths"]
    routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert routes == set(RULES)
    assert routes == {(case.method, case.route) for case in CASES}


async def test_requests_without_credentials_and_denials_have_the_form_of_kafka_connect(
    secured: Secured, tmp_path: Path
) -> None:
    async with served(secured, tmp_path, "form") as client:
        refused = await client.get("/connectors")
        assert (refused.status_code, refused.json()) == (401, {"error_code": 401, "message": "Unauthorized"})
        assert refused.headers["www-authenticate"] == 'Basic realm="connect"'
        denied = await client.get(f"/connectors/{NAME}/config", auth=login("describe"))
        message = f"User is denied operation DescribeConfigs on Group: connect-{NAME}"
        assert (denied.status_code, denied.json()) == (403, {"error_code": 403, "message": message})


async def test_lists_have_what_the_caller_may_see(secured: Secured, tmp_path: Path) -> None:
    async with served(secured, tmp_path, "lists") as client:
        await create(client)

        async def seen(user: str) -> dict[str, list[str]]:
            answer = await client.get("/connectors?expand=info&expand=status", auth=login(user))
            assert list(answer.json()) == (await client.get("/connectors", auth=login(user))).json()
            return {name: sorted(views) for name, views in answer.json().items()}

        assert await seen("others") == {}
        assert await seen("consumer") == {NAME: ["status"]}
        assert await seen("describe_configs") == {NAME: ["info", "status"]}


async def test_denials_and_changes_are_in_the_audit_log(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tailrace.audit")
    async with served(secured, tmp_path, "audited") as client:
        await client.delete(f"/connectors/{NAME}", auth=login("describe"))
        body = {"name": NAME, "config": config("free"), "initial_state": "STOPPED"}
        await client.post("/connectors", json=body, auth=login("alter_configs"))
    lines = [json.loads(each.getMessage()) for each in caplog.records if each.name == "tailrace.audit"]
    denial, change = [line for line in lines if line.get("service") == "connect"]
    assert (denial["event"], denial["operation"], denial["name"]) == ("denial", "DELETE", f"connect-{NAME}")
    assert (change["event"], change["principal"], change["name"], change["status"]) == (
        "change",
        "User:alter_configs",
        f"/connectors/{NAME}",
        201,
    )
    assert PASSWORD not in json.dumps(lines)
    assert SECRET not in json.dumps(lines)
