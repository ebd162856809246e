"""Bounds on the logins that an HTTP service tries for its callers.

Guessed passwords are the reason. Every attempt costs a broker and this service some milliseconds, so only a few run at
a time, and a failed one takes a fixed time, whatever its cause. Credentials that were right before have lanes of their
own: callers who work with the service do not wait behind a program that guesses. Of the others, each address may have a
few attempts waiting, so that one address cannot fill the queue.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tailrace.base.caller_limits import (
    HTTP_FAILED_LOGIN_S,
    HTTP_KNOWN_CREDENTIAL_AGE_S,
    HTTP_KNOWN_CREDENTIALS_MAX,
    HTTP_LOGINS_MAX,
    HTTP_LOGINS_PER_ADDRESS_MAX,
    HTTP_LOGINS_WAITING_MAX,
)
from tailrace.client.error import AuthenticationError
from tailrace.web.caller import Refusal

_RETRY_AFTER = ("retry-after", "1")


class LoginGate:
    """Lets attempts to log in through, a few at a time."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, float] = OrderedDict()
        self._lanes = {is_known: asyncio.Semaphore(HTTP_LOGINS_MAX) for is_known in (False, True)}
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def attempt(self, digest: bytes, host: str) -> AsyncIterator[None]:
        """Run one attempt, by the digest of its credential; raises `Refusal` if too many wait.

        An attempt that raises `AuthenticationError` has failed. It ends after a fixed time, and its credential is not
        known any more.
        """
        is_known = self._known.get(digest, 0.0) > time.monotonic()
        if not is_known:
            self._count(host)
        try:
            async with self._lanes[is_known]:
                ends_at_s = time.monotonic() + HTTP_FAILED_LOGIN_S
                try:
                    yield
                except AuthenticationError:
                    self._known.pop(digest, None)
                    await asyncio.sleep(ends_at_s - time.monotonic())
                    raise
                self._remember(digest)
        finally:
            if not is_known:
                self._uncount(host)

    def _count(self, host: str) -> None:
        total = self._waiting.total()
        if self._waiting[host] >= HTTP_LOGINS_PER_ADDRESS_MAX or total >= HTTP_LOGINS_WAITING_MAX:
            raise Refusal(429, "Too many logins are being tried; try again later", _RETRY_AFTER)
        self._waiting[host] += 1

    def _uncount(self, host: str) -> None:
        self._waiting[host] -= 1
        if not self._waiting[host]:
            del self._waiting[host]

    def _remember(self, digest: bytes) -> None:
        self._known.pop(digest, None)
        self._known[digest] = time.monotonic() + HTTP_KNOWN_CREDENTIAL_AGE_S
        while len(self._known) > HTTP_KNOWN_CREDENTIALS_MAX:
            self._known.popitem(last=False)
