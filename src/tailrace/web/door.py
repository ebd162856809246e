"""Doors of an HTTP service: which callers it admits."""

import hashlib
import hmac
import os
from types import TracebackType
from typing import Self

from tailrace.client.error import AuthenticationError
from tailrace.web.audit import ServiceAudit
from tailrace.web.auth import Users
from tailrace.web.caller import UNJUDGED, Caller, Refusal, Unjudged
from tailrace.web.credential import Credential, read_credential
from tailrace.web.login_gate import LoginGate


class Door:
    """A door that admits every caller. Use it as an async context manager while the service runs."""

    schemes: tuple[str, ...] = ()
    """The schemes of authentication that a refused caller is told of."""
    audit: ServiceAudit | None = None
    """The log of what callers are denied and what they change, if they log in."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def admit(self, authorization: str, host: str) -> Caller:
        """Return the caller of a request by its header and its address; raises `Refusal`."""
        del authorization, host
        return UNJUDGED


class FileDoor(Door):
    """A door that admits the users of a file, who may do everything. Guesses are slow, few at a time and logged."""

    schemes = ("Basic",)

    def __init__(self, users: Users, audit: ServiceAudit) -> None:
        self._users = users
        self.audit: ServiceAudit = audit
        self._salt = os.urandom(32)
        self._gate = LoginGate()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.audit.close()

    async def admit(self, authorization: str, host: str) -> Caller:
        credential = read_credential(authorization)
        if credential is None or credential.is_token:
            raise unauthorized()
        digest = hmac.digest(self._salt, authorization.encode(), hashlib.sha256)
        try:
            async with self._gate.attempt(digest, host):
                self._check(credential)
        except AuthenticationError as error:
            self.audit.deny_login(credential.user, host, str(error))
            raise unauthorized() from None
        return Unjudged(credential.user)

    def _check(self, credential: Credential) -> None:
        known = self._users.get(credential.user, "")
        fits = hmac.compare_digest(known.encode(), credential.secret.encode())
        if not (known and fits):
            raise AuthenticationError("wrong password" if known else "unknown user")


def unauthorized() -> Refusal:
    """Return the refusal of a caller without a valid credential."""
    return Refusal(401, "Unauthorized")
