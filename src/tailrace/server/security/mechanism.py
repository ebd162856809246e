"""The SASL mechanisms of a listener: each begins an exchange for a login and hands it the client's tokens."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from tailrace.security.bearer_token import Token
from tailrace.security.exchange import ServerExchange
from tailrace.security.oauth import OAuthServer
from tailrace.security.plain import PlainServer, PlainUsers
from tailrace.security.scram.credential import Decoys
from tailrace.security.scram.mechanism import Mechanism
from tailrace.security.scram.message import TOKEN_EXTENSION, make_nonce
from tailrace.security.scram.server import CredentialStore, ScramServer

_NONCE_BYTES = 24


class MechanismSource(Protocol):
    """One mechanism of a listener."""

    def begin(self, *, is_again: bool) -> ServerExchange:
        """Begin the exchange of a login; `is_again` if the client has logged in before."""
        ...

    async def respond(self, exchange: ServerExchange, token: bytes) -> bytes:
        """Return the answer to the client's next token, or raise `AuthenticationFailed`."""
        ...


class Mechanisms:
    """The mechanisms of a listener by name, and after how many milliseconds a login by each has to be repeated."""

    def __init__(self, sources: Mapping[str, MechanismSource], reauthentication_ms: Mapping[str, int]) -> None:
        self._sources = sources
        self._reauthentication_ms = reauthentication_ms

    @property
    def names(self) -> list[str]:
        return list(self._sources)

    def reauthentication_ms(self, name: str) -> int:
        """Return after how many milliseconds a login has to be repeated; 0 for never."""
        return self._reauthentication_ms.get(name, 0)

    def begin(self, name: str, *, is_again: bool) -> ServerExchange:
        """Begin the exchange of a login."""
        return self._sources[name].begin(is_again=is_again)

    async def respond(self, name: str, exchange: ServerExchange, token: bytes) -> bytes:
        """Return the answer to the client's next token, or raise `AuthenticationFailed`."""
        return await self._sources[name].respond(exchange, token)


class PlainSource:
    """PLAIN, with the users of an option or a file."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users

    def begin(self, *, is_again: bool) -> ServerExchange:
        return PlainServer(self._users)

    async def respond(self, exchange: ServerExchange, token: bytes) -> bytes:
        return exchange.respond(token)


class ScramSource:
    """SCRAM, with the users and delegation tokens of the metadata store."""

    def __init__(self, mechanism: Mechanism, store: CredentialStore, decoys: Decoys) -> None:
        self._mechanism = mechanism
        self._store = store
        self._decoys = decoys

    def begin(self, *, is_again: bool) -> ServerExchange:
        nonce = make_nonce(secrets.token_bytes(_NONCE_BYTES))
        return ScramServer(self._mechanism, self._store, self._decoys, nonce, is_again=is_again)

    async def respond(self, exchange: ServerExchange, token: bytes) -> bytes:
        if f"{TOKEN_EXTENSION}=".encode() in token:
            # The credential of a delegation token is derived when it is first used, which takes milliseconds.
            return await asyncio.to_thread(exchange.respond, token)
        return exchange.respond(token)


class OAuthSource:
    """OAUTHBEARER: `check` returns what a token says, and `refresh` reads the keys again and says if there are others.

    A token whose key is unknown is checked once more with newer keys, because issuers change their keys.
    """

    def __init__(self, check: Callable[[str], Token], refresh: Callable[[], Awaitable[bool]]) -> None:
        self._check = check
        self._refresh = refresh

    def begin(self, *, is_again: bool) -> ServerExchange:
        return OAuthServer(self._check, is_again=is_again)

    async def respond(self, exchange: ServerExchange, token: bytes) -> bytes:
        answer = exchange.respond(token)
        if isinstance(exchange, OAuthServer) and exchange.unknown_key_id is not None and await self._refresh():
            exchange.forget_refusal()
            answer = exchange.respond(token)
        return answer
