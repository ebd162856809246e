"""The keys that sign the tokens of OAUTHBEARER, from a file or a URL, read again as they change."""

import asyncio
import logging
import urllib.error
from typing import TYPE_CHECKING

from tailrace.base.clock import Clock
from tailrace.base.security_limits import JWKS_DOCUMENT_BYTES_MAX, JWKS_FETCH_TIMEOUT_S, JWKS_REFRESH_PAUSE_MS
from tailrace.client.backoff import Backoff
from tailrace.client.security.web import WEB_ERRORS, describe_problem, shown_url, system_opener
from tailrace.security.bearer_token import Token, TokenRefused, TokenRules

if TYPE_CHECKING:
    from tailrace.security.jwt import KeySet

log = logging.getLogger("tailrace.server")


class KeySource:
    """The present keys. Until there are any, every token is refused."""

    def __init__(self, url: str, rules: TokenRules, clock: Clock, refresh_ms: int, backoff: Backoff) -> None:
        self._url = url
        self._shown_url = shown_url(url)
        self._rules = rules
        self._clock = clock
        self._refresh_ms = refresh_ms
        self._backoff = backoff
        self._document = b""
        self._keys: KeySet | None = None
        self._pause_until_ms: int | None = None
        self._problem = "they have not been read yet"
        self._reading: asyncio.Task[None] | None = None

    def take_over(self, before: "KeySource") -> None:
        """Use the keys that another source has read, if they are of the same URL, until there are newer ones."""
        if before._url == self._url:
            self._document, self._keys = before._document, before._keys
            self._pause_until_ms = before._pause_until_ms

    def check(self, token: str) -> Token:
        """Return what a token says, or raise `TokenRefused`."""
        from tailrace.security.jwt import check_jwt  # needs the extra, which `keep` has told of

        if self._keys is None:
            raise TokenRefused(f"the keys of {self._shown_url} are not there: {self._problem}")
        return check_jwt(token, self._keys, self._rules, self._clock.now_ms() / 1000)

    async def keep(self) -> None:
        """Read the keys, and again whenever it is time to, until cancelled."""
        failures = 0
        while True:
            await self._read()
            failures = failures + 1 if self._problem else 0
            await asyncio.sleep(self._backoff.wait_s(failures) if failures else self._refresh_ms / 1000)

    async def refresh(self) -> bool:
        """Read the keys because a token has an unknown one; return whether there are other keys now.

        Clients can cause this with any token, and so it happens only so often.
        """
        pause_until_ms = self._pause_until_ms
        if self._reading is None and pause_until_ms is not None and self._clock.monotonic_ms() < pause_until_ms:
            return False
        self._pause_until_ms = self._clock.monotonic_ms() + JWKS_REFRESH_PAUSE_MS
        before = self._keys
        await self._read()
        return self._keys is not before

    async def _read(self) -> None:
        """Read the keys; several callers wait for one reading."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_once())
        try:
            await asyncio.shield(self._reading)
        finally:
            if self._reading is not None and self._reading.done():
                self._reading = None

    async def _read_once(self) -> None:
        from tailrace.security.jwt import InvalidKeySet, KeySet

        try:
            document = await asyncio.to_thread(_fetch, self._url)
            if document != self._document:
                self._keys, self._document = KeySet(document), document
                log.info("read %d keys for tokens from %s", len(self._keys), self._shown_url)
                for left_out in self._keys.left_out:
                    log.warning("%s: %s", self._shown_url, left_out)
            self._problem = ""
        except (InvalidKeySet, _TooLarge) as error:
            self._failed(str(error))
        except WEB_ERRORS as error:
            self._failed(describe_problem(error))

    def _failed(self, problem: str) -> None:
        self._problem = problem
        log.warning("the keys for tokens could not be read from %s: %s", self._shown_url, problem)


class _TooLarge(Exception):
    """A document that is too large to be one of keys."""


def _fetch(url: str) -> bytes:
    try:
        with system_opener().open(url, timeout=JWKS_FETCH_TIMEOUT_S) as reply:
            document: bytes = reply.read(JWKS_DOCUMENT_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise
    if len(document) > JWKS_DOCUMENT_BYTES_MAX:
        raise _TooLarge(f"the document has more than {JWKS_DOCUMENT_BYTES_MAX} bytes")
    return document
