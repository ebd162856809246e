"""A Connect service with applications that need no Spark, and an HTTP client for it."""

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tailrace.client.backoff import Backoff
from tailrace.connect import supervisor
from tailrace.connect.http.app import make_app
from tailrace.connect.service import ConnectService, ServiceOptions
from tailrace.connect.store import TopicNames
from tailrace.testing import Broker

SCRIPT = Path(__file__).with_name("fake_application.py")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def names() -> TopicNames:
    unique = uuid.uuid4().hex[:8]
    return TopicNames(f"configs-{unique}", f"status-{unique}", f"offsets-{unique}")


@pytest.fixture
def options(broker: Broker, names: TopicNames, tmp_path: Path) -> ServiceOptions:
    return ServiceOptions({"bootstrap.servers": broker.bootstrap_servers}, tmp_path, names.configs, names)


def use_fake_applications(patch: pytest.MonkeyPatch) -> None:
    """Start applications without Spark."""
    patch.setattr(supervisor, "COMMAND", (sys.executable, str(SCRIPT)))
    patch.setattr(supervisor, "RESTART_BACKOFF", Backoff(1, 1))


@pytest.fixture(autouse=True)
def fake_applications(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_applications(monkeypatch)


@asynccontextmanager
async def serving(options: ServiceOptions) -> AsyncIterator[httpx.AsyncClient]:
    """Serve requests of a client."""
    service = ConnectService(options, "127.0.0.1:8083")
    app = make_app(service)
    async with app.router.lifespan_context(app):
        watching = asyncio.create_task(service.watch())
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://connect.example", timeout=60) as client:
            yield client
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def eventually(ask: Callable[[], Awaitable[Any]], is_right: Callable[[Any], bool]) -> Any:
    """Ask until the answer is right."""
    async with asyncio.timeout(60):
        while not is_right(found := await ask()):
            await asyncio.sleep(0.02)
    return found


async def await_state(client: httpx.AsyncClient, name: str, state: str) -> dict[str, Any]:
    """Wait until the task of a connector is in a state, and return the status of the connector."""

    async def ask() -> dict[str, Any]:
        found: dict[str, Any] = (await client.get(f"/connectors/{name}/status")).json()
        return found

    found: dict[str, Any] = await eventually(
        ask, lambda status: [task["state"] for task in status.get("tasks", [])] == [state]
    )
    return found


def starts(options: ServiceOptions, name: str) -> list[dict[str, Any]]:
    """What the application of a connector has noted about each of its starts."""
    path = options.data / name / "starts.json"
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return found
