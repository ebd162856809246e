"""The logins of a client: for each mechanism, what it takes to authenticate one connection after another."""

import asyncio
import os
from collections.abc import Mapping
from typing import Final, Protocol

from tailrace.client.security.token import TokenSource
from tailrace.security.exchange import ClientExchange
from tailrace.security.oauth import MECHANISM as OAUTHBEARER
from tailrace.security.oauth import OAuthClient
from tailrace.security.plain import PlainClient
from tailrace.security.scram.client import ScramClient
from tailrace.security.scram.mechanism import SCRAM_MECHANISMS
from tailrace.security.scram.message import make_nonce

_NONCE_SIZE_BYTES: Final = 24


class ClientLogin(Protocol):
    """One way to log in, for all connections of a client."""

    @property
    def mechanism(self) -> str:
        """The SASL name."""
        ...

    @property
    def advice(self) -> str:
        """What a user may check if a broker refuses the login, without secrets."""
        ...

    async def begin(self) -> ClientExchange:
        """Return the client's side of a new exchange."""
        ...

    async def respond(self, exchange: ClientExchange, message: bytes) -> bytes | None:
        """Return the exchange's answer to a message of the broker."""
        ...


class PlainLogin:
    """A user name and a password, which the broker gets to see."""

    mechanism = "PLAIN"

    def __init__(self, user: str, password: str) -> None:
        self._user, self._password = user, password
        self.advice = f"check the name and the password of user {user}"

    async def begin(self) -> ClientExchange:
        return PlainClient(self._user, self._password)

    async def respond(self, exchange: ClientExchange, message: bytes) -> bytes | None:
        return exchange.respond(message)


class ScramLogin:
    """A user name and a password, which the broker does not get to see; or the id and HMAC of a delegation token.

    Stretching the password takes milliseconds: it is done in a thread, and once for all connections.
    """

    def __init__(self, mechanism: str, user: str, password: str, *, is_token: bool = False) -> None:
        self.mechanism = mechanism
        self._user, self._password, self._is_token = user, password, is_token
        self._salted: dict[tuple[bytes, int], bytes] = {}
        kind = "the id and the HMAC of delegation token" if is_token else "the name and the password of user"
        self.advice = f"check {kind} {user}, and that it has a credential for {mechanism}"
        if is_token:
            self.advice = f"check {kind} {user}, and that it has not expired"

    async def begin(self) -> ClientExchange:
        return ScramClient(
            SCRAM_MECHANISMS[self.mechanism],
            self._user,
            self._password,
            make_nonce(os.urandom(_NONCE_SIZE_BYTES)),
            is_token=self._is_token,
            salted_passwords=self._salted,
        )

    async def respond(self, exchange: ClientExchange, message: bytes) -> bytes | None:
        return await asyncio.to_thread(exchange.respond, message)


class OAuthLogin:
    """A bearer token from a source, which fetches another in time."""

    mechanism = OAUTHBEARER

    def __init__(self, source: TokenSource, extensions: Mapping[str, str] | None = None) -> None:
        self._source = source
        self._extensions = dict(extensions or {})
        self.advice = f"check {source.description}"

    async def begin(self) -> ClientExchange:
        return OAuthClient(await self._source.token(), self._extensions)

    async def respond(self, exchange: ClientExchange, message: bytes) -> bytes | None:
        return exchange.respond(message)
