"""A connection that is lost while the client renews its login."""

import asyncio
from typing import Any, cast

from tailrace.client.address import Address
from tailrace.client.security.login import PlainLogin
from tailrace.client.security.session import Session


async def test_a_lost_connection_cancels_no_request_that_waits_for_the_login() -> None:
    """A replica fetcher took the cancelled renewal for its own end, and stopped for good."""
    asked = asyncio.Event()

    async def ask(request: Any, reply_type: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    session = Session(PlainLogin("alice", "secret"), Address("127.0.0.1", 1), cast("Any", ask))
    session._renew_at_s = 0.0
    callers = [asyncio.create_task(session.renew_if_due()) for _ in range(2)]
    async with asyncio.timeout(60):
        await asked.wait()
        session.cancel()
        await asyncio.gather(*callers)
