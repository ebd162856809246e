"""Bearer tokens for logins: where they come from, and when to fetch another.

A token is used for all logins until four fifths of its life have passed, and then the source is asked for another. If
the token does not say when it expires, the source is asked for each login.
"""

import asyncio
import base64
import binascii
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

from tailrace.base.security_limits import OAUTH_MESSAGE_BYTES_MAX
from tailrace.client.error import AuthenticationError
from tailrace.security.unsecured_token import make_unsecured

TokenCallback: TypeAlias = Callable[[], str | Awaitable[str]]
"""A function that returns a token. An ordinary one is called in a thread, a coroutine on the client's event loop."""

_USED_SHARE: Final = 0.8


class FetchedToken(NamedTuple):
    """A token, and when it expires in seconds since 1970; None if that is not known."""

    text: str
    expires_at_s: float | None

    def __repr__(self) -> str:
        return f"FetchedToken(expires_at_s={self.expires_at_s})"


class TokenSource(Protocol):
    """A place that gives tokens."""

    @property
    def description(self) -> str:
        """What to check if a broker refuses a token, without secrets."""
        ...

    async def token(self) -> str:
        """Return a token that is valid; raises `AuthenticationError` or `BrokerUnavailable` if there is none."""
        ...


class CachedTokens:
    """A source that fetches tokens with a function, and keeps each while it is good."""

    def __init__(self, description: str, fetch: Callable[[], Awaitable[FetchedToken]]) -> None:
        self.description = description
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._kept: FetchedToken | None = None
        self._refresh_at_s = 0.0

    async def token(self) -> str:
        """Return the token that is kept, or fetch another; concurrent logins share one fetch."""
        async with self._lock:
            if self._kept is None or time.time() >= self._refresh_at_s:
                now_s = time.time()
                self._kept = await self._fetch()
                expires_at_s = self._kept.expires_at_s
                self._refresh_at_s = now_s if expires_at_s is None else now_s + _USED_SHARE * (expires_at_s - now_s)
            return self._kept.text


def tokens_of_callback(callback: TokenCallback) -> TokenSource:
    """Return the source of the setting `oauth_token`."""

    async def fetch() -> FetchedToken:
        try:
            if inspect.iscoroutinefunction(callback):
                found = await callback()
            else:
                result = await asyncio.to_thread(callback)
                found = await result if inspect.isawaitable(result) else result
        except Exception as error:
            # The error of the user's function may quote what it has sent or received, so only its kind is shown.
            text = f"oauth_token raised {type(error).__name__} instead of returning a token"
            raise AuthenticationError(text) from error
        if not isinstance(found, str):
            raise AuthenticationError(f"oauth_token returned {type(found).__name__} instead of a text")
        return FetchedToken(found, expiry_of(found))

    return CachedTokens("what oauth_token returns", fetch)


def tokens_of_file(path: Path) -> TokenSource:
    """Return the source of a file with one token, which another program replaces before it expires."""

    def read() -> str:
        try:
            with path.open("rb") as file:
                data = file.read(OAUTH_MESSAGE_BYTES_MAX)
        except OSError as error:
            raise AuthenticationError(f"the file {path} of the token cannot be read: {error.strerror}") from None
        return data.decode(errors="replace").strip()

    async def fetch() -> FetchedToken:
        return FetchedToken(await asyncio.to_thread(read), None)

    return CachedTokens(f"the token in {path}", fetch)


def unsecured_tokens(options: Mapping[str, str]) -> TokenSource:
    """Return the source of tokens without a signature, for development, from the options of a JAAS text."""

    async def fetch() -> FetchedToken:
        text = make_unsecured(options, time.time())
        return FetchedToken(text, expiry_of(text))

    return CachedTokens("the unsecuredLogin options of sasl.jaas.config", fetch)


def expiry_of(token: str) -> float | None:
    """Return when a JWT says that it expires; None if it does not, or is another kind of token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (binascii.Error, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
