"""The OAUTHBEARER mechanism (RFC 7628): one message with a bearer token and SASL extensions.

| state of the broker | message of the client | answer | next state |
| --- | --- | --- | --- |
| FIRST | valid token | empty | COMPLETE |
| FIRST | refused token | JSON with the status | REFUSED |
| REFUSED | 0x01 | `AuthenticationFailed` with the JSON | FAILED |
| any | anything else | `AuthenticationFailed` | FAILED |

Kafka's broker accepts another token after a refused one. Here a refused exchange is over, as the RFC has it.
"""

import json
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from tailrace.base.frames import without_frames
from tailrace.base.security_limits import OAUTH_MESSAGE_BYTES_MAX
from tailrace.security.bearer_token import Token, TokenRefused
from tailrace.security.exchange import AuthenticationFailed, Identity, invalid_credentials
from tailrace.security.gs2 import MalformedMessage, decode_text, split_gs2_header

MECHANISM: Final = "OAUTHBEARER"
_SEPARATOR: Final = "\x01"
_ACKNOWLEDGEMENT: Final = b"\x01"
_AUTH: Final = "auth"
_KEY = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")
_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_AUTHORIZATION = re.compile(rf"([A-Za-z0-9_]+) +({_TOKEN.pattern})")


class ClientFirst(NamedTuple):
    """The client's message: its token, and the user on whose behalf it wants to act; empty for itself."""

    authzid: str
    token: str
    extensions: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ClientFirst(extensions {', '.join(sorted(self.extensions))})"


def parse_client_first(message: bytes) -> ClientFirst:
    """Return the parts of the client's message, or raise `MalformedMessage`, which does not quote the token."""
    header, body = split_gs2_header(decode_text(message, OAUTH_MESSAGE_BYTES_MAX))
    if len(body) < 3 or not (body.startswith(_SEPARATOR) and body.endswith(_SEPARATOR * 2)):
        raise MalformedMessage("the message does not end with two separators")
    pairs: dict[str, str] = {}
    for pair in body[1:-2].split(_SEPARATOR):
        key, equals, value = pair.partition("=")
        if not equals or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise MalformedMessage("the message is not a list of names with values")
        if key in pairs:
            raise MalformedMessage(f"{key} is given twice")
        pairs[key] = value
    match = _AUTHORIZATION.fullmatch(pairs.pop(_AUTH, ""))
    if match is None:
        raise MalformedMessage("auth is missing or is not a scheme and a token")
    if match[1].lower() != "bearer":
        raise MalformedMessage("the scheme of auth is not Bearer")
    return ClientFirst(header.authzid, match[2], pairs)


class _State(Enum):
    FIRST = 0
    REFUSED = 1
    COMPLETE = 2
    FAILED = 3


class OAuthServer:
    """The broker's side of one login. `check` returns what a token says, or raises `TokenRefused`."""

    def __init__(self, check: Callable[[str], Token], *, is_again: bool = False) -> None:
        self._check = check
        self._public_text = invalid_credentials(MECHANISM, is_again=is_again)
        self._state = _State.FIRST
        self._identity: Identity | None = None
        self._refusal: TokenRefused | None = None

    @property
    def identity(self) -> Identity | None:
        return self._identity

    @property
    def unknown_key_id(self) -> str | None:
        """The key of a refused token, if it was refused because the broker does not have this key."""
        return None if self._refusal is None else self._refusal.unknown_key_id

    @property
    def refusal_reason(self) -> str | None:
        """Why the token was refused, for the log; None if it was not."""
        return None if self._refusal is None else self._refusal.reason

    def forget_refusal(self) -> None:
        """Take the same token once more, because the broker has other keys now."""
        self._state, self._refusal = _State.FIRST, None

    def respond(self, message: bytes) -> bytes:
        """Return the answer to the client's next message, or raise `AuthenticationFailed`."""
        state, self._state = self._state, _State.FAILED
        if state is _State.REFUSED and self._refusal is not None:
            raise AuthenticationFailed(self._refusal.reason, format_refusal(self._refusal))
        if state is not _State.FIRST:
            raise AuthenticationFailed(f"a message arrived in the state {state.name}", self._public_text)
        try:
            first = parse_client_first(message)
        except MalformedMessage as error:
            raise AuthenticationFailed(f"malformed {MECHANISM} message: {error}", self._public_text) from None
        try:
            token = self._check(first.token)
        except TokenRefused as refusal:
            # It is kept until the client acknowledges it, and its frames hold the message and the claims.
            self._refusal, self._state = without_frames(refusal), _State.REFUSED
            return format_refusal(refusal).encode()
        if first.authzid not in ("", token.principal):
            raise AuthenticationFailed(f"user {token.principal} may not act as {first.authzid}", self._public_text)
        self._identity = Identity(token.principal, token.expires_at_ms, extensions=first.extensions)
        self._state = _State.COMPLETE
        return b""


def format_refusal(refusal: TokenRefused) -> str:
    """Return the JSON that tells a client why its token was refused; it has the status, and not the reason."""
    answer = {"status": refusal.status}
    if refusal.scope is not None:
        answer["scope"] = refusal.scope
    return json.dumps(answer)


class OAuthClient:
    """The client's side of one login."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        if not _TOKEN.fullmatch(token):
            raise ValueError("the token has letters that a bearer token cannot have")
        for key, value in (extensions or {}).items():
            if key == _AUTH or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
                raise ValueError(f"SASL extension {key!r} has a name or a value that is not allowed")
        pairs = [f"{_AUTH}=Bearer {token}", *(f"{key}={value}" for key, value in (extensions or {}).items())]
        self._message = _SEPARATOR.join(["n,,", *pairs, _SEPARATOR]).encode()
        self._state = _State.FIRST
        self.refusal: str | None = None
        """The broker's reason for refusing the token, as its JSON says it."""

    @property
    def is_complete(self) -> bool:
        return self._state is _State.COMPLETE

    def start(self) -> bytes:
        """Return the message with the token."""
        return self._message

    def respond(self, message: bytes) -> bytes | None:
        """Return None if the broker accepts the token, or 0x01, to which the broker answers with the error."""
        if self._state is not _State.FIRST:
            text = f"Authentication with {MECHANISM} failed: {self.refusal or 'the broker sent another message'}"
            self._state = _State.FAILED
            raise AuthenticationFailed(text, text)
        if not message:
            self._state = _State.COMPLETE
            return None
        self._state = _State.REFUSED
        self.refusal = message[:OAUTH_MESSAGE_BYTES_MAX].decode(errors="replace")
        return _ACKNOWLEDGEMENT
