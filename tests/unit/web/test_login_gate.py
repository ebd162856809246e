"""Bounds on the logins that a service tries for its callers."""

import asyncio

import pytest
from tests.settled import settled

from tailrace.client.error import AuthenticationError
from tailrace.web import login_gate
from tailrace.web.caller import Refusal
from tailrace.web.login_gate import LoginGate


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_gate, "HTTP_LOGINS_MAX", 1)
    monkeypatch.setattr(login_gate, "HTTP_LOGINS_PER_ADDRESS_MAX", 2)
    monkeypatch.setattr(login_gate, "HTTP_LOGINS_WAITING_MAX", 3)
    monkeypatch.setattr(login_gate, "HTTP_FAILED_LOGIN_S", 0.0)


async def attempt(gate: LoginGate, name: str, host: str, until: asyncio.Event, *, is_wrong: bool = False) -> None:
    async with gate.attempt(name.encode(), host):
        await until.wait()
        if is_wrong:
            raise AuthenticationError("no")


async def test_an_address_has_only_some_attempts_and_all_have_a_bound() -> None:
    gate, never = LoginGate(), asyncio.Event()
    tasks = [asyncio.create_task(attempt(gate, f"guess-{index}", "10.0.0.1", never)) for index in range(2)]
    await settled()
    with pytest.raises(Refusal) as refusal:
        await attempt(gate, "guess-2", "10.0.0.1", never)
    assert (refusal.value.status, refusal.value.headers) == (429, (("retry-after", "1"),))
    tasks.append(asyncio.create_task(attempt(gate, "other", "10.0.0.2", never)))
    await settled()
    with pytest.raises(Refusal):
        await attempt(gate, "third", "10.0.0.3", never)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    never.set()
    await attempt(gate, "guess-3", "10.0.0.1", never)


async def test_a_known_credential_does_not_wait_behind_guesses() -> None:
    gate, now, never = LoginGate(), asyncio.Event(), asyncio.Event()
    now.set()
    await attempt(gate, "right", "10.0.0.1", now)
    guesses = [asyncio.create_task(attempt(gate, f"guess-{index}", "10.0.0.1", never)) for index in range(2)]
    await settled()
    await asyncio.wait_for(attempt(gate, "right", "10.0.0.1", now), 60)
    for guess in guesses:
        guess.cancel()
    await asyncio.gather(*guesses, return_exceptions=True)


async def test_a_credential_that_fails_is_not_known_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, now = LoginGate(), asyncio.Event()
    now.set()
    await attempt(gate, "right", "10.0.0.1", now)
    with pytest.raises(AuthenticationError):
        await attempt(gate, "right", "10.0.0.1", now, is_wrong=True)
    monkeypatch.setattr(login_gate, "HTTP_LOGINS_PER_ADDRESS_MAX", 0)
    with pytest.raises(Refusal):
        await attempt(gate, "right", "10.0.0.1", now)


async def test_known_credentials_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_gate, "HTTP_KNOWN_CREDENTIALS_MAX", 1)
    gate, now = LoginGate(), asyncio.Event()
    now.set()
    for name in ("first", "second"):
        await attempt(gate, name, "10.0.0.1", now)
    monkeypatch.setattr(login_gate, "HTTP_LOGINS_PER_ADDRESS_MAX", 0)
    await attempt(gate, "second", "10.0.0.1", now)
    with pytest.raises(Refusal):
        await attempt(gate, "first", "10.0.0.1", now)
