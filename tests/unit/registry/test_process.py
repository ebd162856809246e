"""Registries that start before their brokers, may not join their group, or share an address."""

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import httpx
import pytest
from tests.logged import logged
from tests.unit.registry.serving import serving, starting

from tailrace.registry import service
from tailrace.registry.process import Options, RegistryServer
from tailrace.testing import Broker


async def health(server: RegistryServer, host: str | None = None) -> dict[str, Any]:
    """Return the health of a registry when it knows a leader or why there is none."""
    member = server.registry.member
    async with httpx.AsyncClient() as client, asyncio.timeout(60):
        while True:
            with contextlib.suppress(httpx.TransportError):
                found = (await client.get(f"http://{host or member.host}:{member.port}/health")).json()
                if found["leader"] is not None or found["reason"] is not None:
                    return dict(found)
            await asyncio.sleep(0.01)


async def test_a_registry_that_may_not_join_says_why(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LEADER_TIMEOUT_S", 0.01)
    async with starting(replace(options, session_timeout_ms=1)) as server:
        found = await health(server)
        assert (found["healthy"], found["leader"]) == (False, None)
        assert "INVALID_SESSION_TIMEOUT" in found["reason"]
        async with httpx.AsyncClient() as client:
            answer = (await client.put(f"{server.url}/config", json={"compatibility": "NONE"})).json()
        assert answer["error_code"] == 50004
        assert "INVALID_SESSION_TIMEOUT" in answer["message"]


async def test_a_registry_with_the_address_of_the_leader_does_not_take_it_away(options: Options) -> None:
    async with serving(options) as leader:
        address = leader.registry.member
        same = replace(options, host="127.0.0.2", port=address.port, advertised_host=address.host)
        async with starting(same) as server:
            found = await health(server, same.host)
            assert (found["healthy"], found["is_leader"]) == (False, False)
            assert "--advertise" in found["reason"]
            async with httpx.AsyncClient() as client:
                answer = await client.post(f"{leader.url}/subjects/a/versions", json={"schema": '"int"'})
            assert answer.json()["id"] == 1
        assert (await health(leader))["is_leader"]


async def test_a_registry_waits_for_its_brokers(caplog: pytest.LogCaptureFixture) -> None:
    """It ended with a traceback if it was started before its brokers."""
    with Broker() as broker:
        options = Options(broker.bootstrap_servers)
    async with starting(options) as server:
        async with asyncio.timeout(60):
            while f"waits for the brokers at {options.bootstrap}" not in logged(caplog):
                await asyncio.sleep(0.01)
        broker = Broker({"listeners": f"PLAINTEXT://{options.bootstrap}"})
        await asyncio.to_thread(broker.start)
        try:
            assert (await health(server))["is_leader"]
        finally:
            await asyncio.to_thread(broker.stop)


async def test_a_registry_that_waits_for_its_brokers_can_be_stopped() -> None:
    async with starting(Options("127.0.0.1:1")):
        await asyncio.sleep(0)
