"""The login of one connection, and its renewal before the session ends (KIP-368).

A broker that limits sessions says so in its answer to a login. The client logs in again on the same connection when
most of the time has passed: the next request waits for it, requests in flight are answered before it, and none is
lost. A connection without requests is not renewed; the broker judges it at its next request, which renews it first.
"""

import asyncio
from typing import Final, Protocol, TypeVar

from tailrace.base import chance
from tailrace.client.address import Address
from tailrace.client.error import AuthenticationError
from tailrace.client.security.login import ClientLogin
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tailrace.security.exchange import AuthenticationFailed

R = TypeVar("R", bound=Message)

_RENEW_AFTER: Final = (0.85, 0.95)
"""Shares of a session's lifetime between which it is renewed, as Kafka's client does it."""

_HANDSHAKE_VERSION_MIN: Final = 1
"""After version 0 of the handshake the tokens have no frames, and errors no text."""


class Ask(Protocol):
    """Sends a request ahead of all that wait for the login, and returns its reply."""

    async def __call__(self, request: Message, reply_type: type[R]) -> R: ...


class Session:
    """The login of one connection."""

    def __init__(self, login: ClientLogin, address: Address, ask: Ask) -> None:
        self._login = login
        self._address = address
        self._ask = ask
        self._renew_at_s: float | None = None
        self._renewal: asyncio.Task[None] | None = None

    @property
    def is_renewing(self) -> bool:
        """Whether the client logs in again at the moment, so that no other request may be sent."""
        return self._renewal is not None

    async def begin(self) -> None:
        """Log in; raises `AuthenticationError` if the broker refuses, or is not who it should be."""
        loop = asyncio.get_running_loop()
        lifetime_ms = await self._log_in()
        share = chance.generator().uniform(*_RENEW_AFTER)
        self._renew_at_s = loop.time() + share * lifetime_ms / 1000 if lifetime_ms > 0 else None

    async def renew_if_due(self) -> None:
        """Log in again if it is time; callers that come meanwhile wait for the same login."""
        if self._renewal is None:
            loop = asyncio.get_running_loop()
            if self._renew_at_s is None or loop.time() < self._renew_at_s:
                return
            self._renewal = loop.create_task(self.begin())
            self._renewal.add_done_callback(self._renewed)
        renewal = self._renewal
        # One caller may give up while others wait, and a lost connection, which cancels the renewal, cancels no caller.
        await asyncio.wait([renewal])
        if not renewal.cancelled():
            renewal.result()

    def cancel(self) -> None:
        """Give up a renewal, because the connection is lost."""
        if self._renewal is not None:
            self._renewal.cancel()

    def _renewed(self, task: asyncio.Task[None]) -> None:
        self._renewal = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved: every caller may have been cancelled

    async def _log_in(self) -> int:
        """Return the lifetime of the session in milliseconds, 0 for no limit."""
        login = self._login
        try:
            exchange = await login.begin()
            await self._choose_mechanism()
            message: bytes | None = exchange.start()
            lifetime_ms = 0
            while message is not None:
                reply = await self._ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
                if reply.error_code:
                    raise self._refused(reply)
                lifetime_ms = reply.session_lifetime_ms
                message = await login.respond(exchange, bytes(reply.auth_bytes))
        except AuthenticationFailed as error:
            raise AuthenticationError(f"{self._address}: {error.public_text}; {login.advice}") from None
        except ValueError as error:  # a name, a password or a token that the mechanism cannot carry
            raise AuthenticationError(f"{login.mechanism}: {error}") from None
        return lifetime_ms

    async def _choose_mechanism(self) -> None:
        mechanism = self._login.mechanism
        reply = await self._ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse)
        if reply.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(reply.mechanisms) or "none"
            text = f"{self._address} does not offer the SASL mechanism {mechanism}; it offers {offered}"
            raise AuthenticationError(f"{text}: change sasl.mechanism")
        if reply.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            text = f"{self._address} takes no logins on this port; use security.protocol PLAINTEXT or SSL, or another"
            raise AuthenticationError(f"{text} port")
        if reply.error_code:
            code = ErrorCode(reply.error_code)
            raise AuthenticationError(f"{self._address} refuses the SASL mechanism {mechanism}: {code.name}")

    def _refused(self, reply: SaslAuthenticateResponse) -> AuthenticationError:
        said = reply.error_message or ErrorCode(reply.error_code).name
        return AuthenticationError(
            f"{self._address} refuses the login by {self._login.mechanism}: {said}; {self._login.advice}"
        )
