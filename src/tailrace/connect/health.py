"""The health of a Connect service: whether its brokers answer.

A service without brokers cannot change connectors or note positions, so load balancers should not send requests to it.
"""

import asyncio
import logging

from tailrace.connect.store import BROKER_ERRORS, ConnectStore

_log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
"""The time that Kafka Connect gives to its check."""


class HealthCheck:
    """Asks the brokers. Concurrent callers share one question, because clients without a login may ask, too."""

    def __init__(self, store: ConnectStore) -> None:
        self._store = store
        self._asking: asyncio.Task[bool] | None = None
        self._is_healthy = True

    async def is_healthy(self) -> bool:
        """Return whether the brokers answer; the reason why not is logged once, and kept from callers."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> bool:
        reason = ""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._store.ask_brokers()
        except TimeoutError:
            reason = f"they did not answer within {TIMEOUT_S:g} s"
        except BROKER_ERRORS as error:
            reason = str(error)
        if reason and self._is_healthy:
            _log.warning("the Connect service is unhealthy, because its brokers cannot be asked: %s", reason)
        elif not reason and not self._is_healthy:
            _log.info("the Connect service is healthy again")
        self._is_healthy = not reason
        return self._is_healthy
