"""Requests that a follower cannot pass on."""

import asyncio

import httpx
import pytest

from tailrace.registry.election import Member
from tailrace.registry.http.app import make_app
from tailrace.registry.service import Registry


@pytest.mark.parametrize("host", ["a b", "x" * 100, "\u0627a", "[", "a/../b", "127.0.0.1"])
async def test_a_leader_that_cannot_be_reached_is_an_error_of_forwarding(host: str) -> None:
    """An address that is not valid raised an error of the HTTP client that the follower did not know: answer 500."""
    registry = Registry("localhost:9092", Member("localhost", 8081))
    await registry._on_leader(Member(host, 1), None)
    app = make_app(registry)
    async with (
        httpx.AsyncClient(timeout=10, trust_env=False) as app.state.forwarding,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://registry.example") as client,
    ):
        async with asyncio.timeout(60):
            answer = await client.delete("/subjects/a")
    assert answer.json()["error_code"] == 50003
    assert host in answer.json()["message"]
