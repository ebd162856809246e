"""The exchange of SASL messages between a client and a broker, apart from any mechanism.

Each mechanism has a server's side and a client's side. Both take the bytes of the peer and return the bytes to send,
and neither knows a socket. A side that refuses raises `AuthenticationFailed`, and then the exchange is over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class AuthenticationFailed(Exception):
    """A refused login: the reason for the broker's log, and the text that the client may read.

    The reason may tell whether a user exists, and never contains a secret. The public text must not tell it.
    """

    def __init__(self, reason: str, public_text: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.public_text = public_text


@dataclass(frozen=True, slots=True)
class Identity:
    """The result of a login: the name of the user, and until when it is valid."""

    name: str
    expires_at_ms: int | None = None
    is_token: bool = False
    """Whether the client logged in with a delegation token, which may not create other tokens."""
    extensions: Mapping[str, str] = field(default_factory=dict)


class ServerExchange(Protocol):
    """The broker's side of a login."""

    @property
    def identity(self) -> Identity | None:
        """The user that logged in; None until the exchange is complete."""
        ...

    def respond(self, message: bytes) -> bytes:
        """Return the answer to the client's next message, or raise `AuthenticationFailed`."""
        ...


class ClientExchange(Protocol):
    """The client's side of a login. The client speaks first in every mechanism here."""

    @property
    def is_complete(self) -> bool:
        """Whether the broker has accepted the login and has proved what the mechanism demands of it."""
        ...

    def start(self) -> bytes:
        """Return the first message."""
        ...

    def respond(self, message: bytes) -> bytes | None:
        """Return the answer to the broker's next message; None if nothing is left to send."""
        ...


def invalid_credentials(mechanism: str, *, is_again: bool = False) -> str:
    """Return the text that clients of Kafka show for a refused login; `is_again` for a re-authentication."""
    step = "re-authentication" if is_again else "authentication"
    return f"Authentication failed during {step} due to invalid credentials with SASL mechanism {mechanism}"
