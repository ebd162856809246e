"""The PLAIN mechanism (RFC 4616): one message with a user name and a password, for connections with TLS."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from tailrace.base.security_limits import PLAIN_MESSAGE_BYTES_MAX
from tailrace.config.properties import parse_properties
from tailrace.security.exchange import AuthenticationFailed, Identity
from tailrace.security.gs2 import MalformedMessage, decode_text
from tailrace.security.jaas import Login

_USER_PREFIX: Final = "user_"
_INVALID: Final = "Authentication failed: Invalid username or password"
_NO_DIGEST: Final = bytes(32)


class PlainUsers:
    """The users of PLAIN with digests of their passwords, so that a dump of the object shows none."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        for name, password in passwords.items():
            if not name or not password or "\0" in name + password:
                raise ValueError(
                    f"user {name!r}: the name or the password is empty or has a NUL, so no client can log in"
                )
        self._digests = {name: _digest(password) for name, password in passwords.items()}

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, name: str) -> bool:
        return name in self._digests

    def is_password(self, name: str, password: str) -> bool:
        """Return whether the user exists and has this password, after the same work in each case."""
        fits = hmac.compare_digest(self._digests.get(name, _NO_DIGEST), _digest(password))
        return fits and name in self._digests


def users_of_login(login: Login) -> PlainUsers:
    """Return the users of the options `user_NAME` of PlainLoginModule.

    The options `username` and `password` are the broker's own login to other brokers, not a client's.
    """
    passwords = {
        name.removeprefix(_USER_PREFIX): password
        for name, password in login.options.items()
        if name.startswith(_USER_PREFIX)
    }
    return PlainUsers(passwords)


def users_of_properties(text: str) -> PlainUsers:
    """Return the users of a properties file with a line `name=password` for each."""
    passwords: dict[str, str] = {}
    for entry in parse_properties(text):
        if entry.name in passwords:
            raise ValueError(f"line {entry.line}: user {entry.name!r} is given twice")
        passwords[entry.name] = entry.value
    return PlainUsers(passwords)


class PlainServer:
    """The broker's side of one login."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users
        self._is_over = False
        self._identity: Identity | None = None

    @property
    def identity(self) -> Identity | None:
        return self._identity

    def respond(self, message: bytes) -> bytes:
        """Return the empty answer to a login, or raise `AuthenticationFailed`."""
        if self._is_over:
            raise AuthenticationFailed("a second PLAIN message arrived", _INVALID)
        self._is_over = True
        try:
            authzid, name, password = _split(message)
        except MalformedMessage as error:
            raise AuthenticationFailed(f"malformed PLAIN message: {error}", _INVALID) from None
        if not self._users.is_password(name, password):
            problem = "wrong password of user" if name in self._users else "unknown user"
            raise AuthenticationFailed(f"{problem} {name}", _INVALID)
        if authzid not in ("", name):
            raise AuthenticationFailed(f"user {name} may not act as {authzid}", _INVALID)
        self._identity = Identity(name)
        return b""


class PlainClient:
    """The client's side of one login. The authorization id stays empty, as Kafka's client leaves it."""

    def __init__(self, user: str, password: str) -> None:
        if not user or not password or "\0" in user + password:
            raise ValueError("PLAIN needs a user name and a password without NUL")
        self._message = f"\0{user}\0{password}".encode()
        self._is_complete = False

    @property
    def is_complete(self) -> bool:
        return self._is_complete

    def start(self) -> bytes:
        """Return the only message."""
        return self._message

    def respond(self, message: bytes) -> None:
        """Accept the broker's empty answer; raise `AuthenticationFailed` for any other."""
        if message or self._is_complete:
            text = "Authentication with PLAIN failed: the broker sent a message that PLAIN does not have"
            raise AuthenticationFailed(text, text)
        self._is_complete = True


def _split(message: bytes) -> tuple[str, str, str]:
    parts = decode_text(message, PLAIN_MESSAGE_BYTES_MAX).split("\0")
    if len(parts) != 3:
        raise MalformedMessage(f"it has {len(parts)} parts instead of three")
    authzid, name, password = parts
    if not name:
        raise MalformedMessage("the user name is empty")
    if not password:
        raise MalformedMessage("the password is empty")
    return authzid, name, password


def _digest(password: str) -> bytes:
    # Digests have one length, so comparing them does not tell the length of the password.
    return hashlib.sha256(password.encode()).digest()
