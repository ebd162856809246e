"""The login of one connection on a listener with SASL: which requests may come, and when the login ends.

| state | request | next state |
| --- | --- | --- |
| START | ApiVersions | HANDSHAKE, START if it was refused |
| START, HANDSHAKE | SaslHandshake with a mechanism of the listener | TOKENS |
| TOKENS | SaslAuthenticate, or a bare token after version 0 of the handshake | TOKENS, COMPLETE after the last one |
| COMPLETE | any other than SaslHandshake | COMPLETE |
| COMPLETE | SaslHandshake, if the login has a lifetime (KIP-368) | TOKENS |
| any | anything else, or a refused token | OVER: the connection is closed |

A client that logs in again must be the same user with the same mechanism. Once the lifetime of a login is over, only
a new login is accepted. As in Kafka, a client may log in again after a second at the earliest. Each handshake begins
with the mechanisms that the listener has at that moment, so that users and keys may change on an open connection.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from tailrace.base.clock import Clock
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.security.exchange import AuthenticationFailed, Identity, ServerExchange
from tailrace.security.oauth import OAuthServer
from tailrace.server.connection import ConnectionClosed
from tailrace.server.security.mechanism import Mechanisms

_AGAIN_AFTER_MS = 1000
_FIRST_FRAMED_VERSION = 1
_KNOWN = frozenset(ApiKey)


class _State(Enum):
    START = 0
    TOKENS = 1
    COMPLETE = 2
    OVER = 3
    HANDSHAKE = 4


_EXPECTED = {
    _State.START: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    _State.HANDSHAKE: frozenset({ApiKey.SASL_HANDSHAKE}),
    _State.TOKENS: frozenset({ApiKey.SASL_AUTHENTICATE}),
}


class Answer(NamedTuple):
    """The broker's token, and in how many milliseconds the client must log in again; 0 for never."""

    token: bytes
    lifetime_ms: int = 0


class SaslSession:
    """The login of one connection."""

    def __init__(
        self,
        present_mechanisms: Callable[[], Mechanisms],
        clock: Clock,
        logged_in: Callable[[Identity], None],
        refused: Callable[[str, str], None],
        failure_delay_s: float,
    ) -> None:
        """`logged_in` takes the user in; `refused` is told the mechanism and the reason of a refusal."""
        self._present_mechanisms = present_mechanisms
        self._mechanisms = present_mechanisms()
        self._clock = clock
        self._logged_in = logged_in
        self._refused = refused
        self.failure_delay_s = failure_delay_s
        """How long the answer to a refused login waits."""
        self._state = _State.START
        self._exchange: ServerExchange | None = None
        self._identity: Identity | None = None
        self._mechanism = ""
        self._is_refusal_told = False
        self._complete_at_ms = 0
        self._ends_at_ms: int | None = None
        self.takes_bare_tokens = False
        """Whether the next frame is a token without a header, as clients of Kafka 0.9 send it."""

    @property
    def is_complete(self) -> bool:
        """Whether the client has logged in; it may be about to log in again."""
        return self._identity is not None

    @property
    def mechanism(self) -> str:
        """The mechanism that the client chose; empty before."""
        return self._mechanism

    @property
    def mechanism_names(self) -> list[str]:
        return self._mechanisms.names

    def check(self, api_key: int) -> None:
        """Raise `ConnectionClosed` if a request of this API may not come now."""
        if self._state is _State.COMPLETE:
            if self._ends_at_ms is None or api_key == ApiKey.SASL_HANDSHAKE:
                return
            if self._clock.monotonic_ms() < self._ends_at_ms:
                return
            raise ConnectionClosed("the lifetime of its login is over, and the client did not log in again")
        if api_key not in _EXPECTED.get(self._state, ()):
            self._state = _State.OVER
            name = ApiKey(api_key).name if api_key in _KNOWN else f"API key {api_key}"
            # aiokafka goes on after a refused token; the log has the reason already.
            raise ConnectionClosed("" if self._is_refusal_told else f"{name} came before the client had logged in")

    def tell_versions(self) -> None:
        """Note that the client has learned the versions; as in Kafka, it may ask for them once before its login."""
        if self._state is _State.START:
            self._state = _State.HANDSHAKE

    def handshake(self, mechanism: str, version: int) -> None:
        """Begin a login; raise `ApiError` if it cannot be."""
        is_again = self._state is _State.COMPLETE
        again_at_ms = None if self._ends_at_ms is None else self._complete_at_ms + _AGAIN_AFTER_MS
        if is_again and (again_at_ms is None or self._clock.monotonic_ms() < again_at_ms):
            raise ApiError(ErrorCode.ILLEGAL_SASL_STATE, "the client has logged in, and need not do so again yet")
        self._mechanisms = self._present_mechanisms()
        if mechanism not in self._mechanisms.names:
            self._state = _State.OVER
            raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        if is_again and mechanism != self._mechanism:
            self._state = _State.OVER
            raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"the login was by {self._mechanism}")
        self._mechanism = mechanism
        self._is_refusal_told = False
        self._state = _State.TOKENS
        self.takes_bare_tokens = version < _FIRST_FRAMED_VERSION
        self._exchange = self._mechanisms.begin(mechanism, is_again=is_again)

    async def respond(self, token: bytes) -> Answer:
        """Return the answer to the client's next token, or raise `AuthenticationFailed`."""
        exchange = self._exchange
        if self._state is not _State.TOKENS or exchange is None:
            raise ApiError(ErrorCode.ILLEGAL_SASL_STATE, "the client has logged in already")
        self._state = _State.OVER  # until the token has been accepted
        answer = await self._mechanisms.respond(self._mechanism, exchange, token)
        identity = exchange.identity
        if identity is None:
            self._state = _State.TOKENS
            if isinstance(exchange, OAuthServer) and exchange.refusal_reason is not None:
                self.tell_refusal(exchange.refusal_reason)  # not all clients acknowledge it, as they should
            return Answer(answer)
        return Answer(answer, self._complete(identity))

    def tell_refusal(self, reason: str) -> None:
        """Have a refused login logged, once."""
        if not self._is_refusal_told:
            self._is_refusal_told = True
            self._refused(self._mechanism, reason)

    def _complete(self, identity: Identity) -> int:
        before = self._identity
        if before is not None and (before.name, before.is_token) != (identity.name, identity.is_token):
            text = "Cannot change principals during re-authentication"
            raise AuthenticationFailed(f"{text}: from {before.name} to {identity.name}", f"{text}.")
        self._identity, self._exchange = identity, None
        self._state, self.takes_bare_tokens = _State.COMPLETE, False
        self._complete_at_ms = self._clock.monotonic_ms()
        lifetime_ms = self._lifetime_ms(identity)
        self._ends_at_ms = None if lifetime_ms is None else self._complete_at_ms + lifetime_ms
        self._logged_in(identity)
        return lifetime_ms or 0

    def _lifetime_ms(self, identity: Identity) -> int | None:
        """Return how long the login is valid: until its token expires, or as long as the listener allows."""
        limits = [limit for limit in [self._mechanisms.reauthentication_ms(self._mechanism)] if limit > 0]
        if identity.expires_at_ms is not None:
            limits.append(max(identity.expires_at_ms - self._clock.now_ms(), 0))
        return min(limits, default=None)
