"""Callers that log in as users of a file."""

import asyncio
import base64
import json

import httpx
import pytest
from tests.logged import logged
from tests.unit.registry.serving import serving

from tailrace.base.caller_limits import HTTP_LOGINS_PER_ADDRESS_MAX
from tailrace.registry.process import Options
from tailrace.testing import Broker
from tailrace.web import login_gate
from tailrace.web.audit import ServiceAudit
from tailrace.web.caller import Refusal
from tailrace.web.door import FileDoor

HOST = "10.0.0.1"
USERS = {"ann": "secret-of-ann"}


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


async def status(door: FileDoor, header: str, host: str = HOST) -> int:
    try:
        await (await door.admit(header, host)).leave()
    except Refusal as refusal:
        return refusal.status
    return 200


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_gate, "HTTP_FAILED_LOGIN_S", 0.0)


async def test_a_caller_is_named_after_its_user() -> None:
    async with FileDoor(USERS, ServiceAudit("registry")) as door:
        caller = await door.admit(basic("ann", "secret-of-ann"), HOST)
    assert (caller.principal, caller.is_judged) == ("User:ann", False)


@pytest.mark.usefixtures("quick")
async def test_a_refused_login_is_logged_without_its_password(caplog: pytest.LogCaptureFixture) -> None:
    """Guesses left no trace."""
    caplog.set_level("INFO", "tailrace.audit")
    async with FileDoor(USERS, ServiceAudit("registry")) as door:
        for user in ("ann", "ann", "nemo"):
            assert await status(door, basic(user, "wrong-guess")) == 401
    lines = [json.loads(each.getMessage()) for each in caplog.records if each.name == "tailrace.audit"]
    told = [(each["principal"], each["host"], each["reason"], each["count"]) for each in lines]
    assert told == [
        ("User:ann", HOST, "wrong password", 1),
        ("User:nemo", HOST, "unknown user", 1),
        ("User:ann", HOST, "wrong password", 1),
    ]
    assert "wrong-guess" not in logged(caplog)


async def test_guesses_are_slow_and_few_at_a_time_and_do_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program could try as many passwords as the network carries."""
    monkeypatch.setattr(login_gate, "HTTP_FAILED_LOGIN_S", 3600.0)
    async with FileDoor(USERS, ServiceAudit("registry")) as door:
        assert await status(door, basic("ann", "secret-of-ann")) == 200
        guesses = [
            asyncio.create_task(status(door, basic("ann", f"guess-{index}")))
            for index in range(HTTP_LOGINS_PER_ADDRESS_MAX)
        ]
        await asyncio.sleep(0)
        assert await status(door, basic("ann", "one-more")) == 429
        assert await status(door, basic("ann", "secret-of-ann")) == 200
        assert not any(guess.done() for guess in guesses)
        for guess in guesses:
            guess.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)


async def test_changes_are_logged_with_the_user(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tailrace.audit")
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        async with serving(Options(broker.bootstrap_servers, users=USERS)) as server:
            async with httpx.AsyncClient(base_url=server.url, timeout=60, auth=("ann", "secret-of-ann")) as client:
                assert (await client.put("/config", json={"compatibility": "FULL"})).status_code == 200
                assert (await client.get("/config")).status_code == 200
    lines = [json.loads(each.getMessage()) for each in caplog.records if each.name == "tailrace.audit"]
    (line,) = [each for each in lines if each.get("service") == "registry"]
    assert (line["event"], line["principal"], line["api"], line["status"]) == ("change", "User:ann", "PUT /config", 200)
