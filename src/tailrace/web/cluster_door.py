"""A door that admits the users of the cluster, whose ACLs decide what they may do.

The service knows no passwords. It logs in to the brokers with what the caller has sent, by SASL PLAIN or SCRAM with a
password and by OAUTHBEARER with a token, and asks them on these connections what the caller may do. A login is reused
for a few seconds, by a salted hash of the header.
"""

import asyncio
import hashlib
import hmac
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tailrace.base.caller_limits import HTTP_CALLERS_MAX
from tailrace.client.cluster import Cluster
from tailrace.client.error import AuthenticationError, ClientError
from tailrace.client.security.login import ClientLogin, OAuthLogin, PlainLogin, ScramLogin
from tailrace.client.security.security import Security
from tailrace.client.setting import ClientSettings
from tailrace.config.error import ConfigError
from tailrace.protocol.errors import ApiError, RemoteProtocolError
from tailrace.security.scram.mechanism import SCRAM_MECHANISMS
from tailrace.web.audit import ServiceAudit
from tailrace.web.caller import Caller, Refusal
from tailrace.web.cluster_caller import ClusterCaller
from tailrace.web.credential import Credential, read_credential
from tailrace.web.door import Door, unauthorized
from tailrace.web.login_gate import LoginGate

_OAUTHBEARER = "OAUTHBEARER"
_SWEEP_INTERVAL_S = 1.0
_TIMEOUT_MS = 10_000
_TRANSPORTS = {"SASL_SSL": "SSL", "SASL_PLAINTEXT": "PLAINTEXT"}


class _GivenToken:
    """The source of a token that a caller has sent."""

    description = "the token of the request"

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class ClusterDoor(Door):
    """Admits callers that can log in to the brokers."""

    def __init__(self, client: Mapping[str, str], audit: ServiceAudit) -> None:
        """`client` has the configs of the service's own clients, whose listener and mechanism callers use, too.

        Raises `ConfigError` if the service itself does not log in by SASL.
        """
        protocol = client.get("security.protocol", "PLAINTEXT")
        if protocol not in _TRANSPORTS:
            text = f"users of the cluster need a listener with logins: SASL_SSL or SASL_PLAINTEXT, not {protocol}"
            raise ConfigError("security.protocol", f"security.protocol: {text}")
        mechanism = client.get("sasl.mechanism") or client.get("sasl.mechanisms") or ""
        self._password_mechanism = "SCRAM-SHA-512" if mechanism == _OAUTHBEARER else mechanism
        self.schemes = ("Bearer", "Basic") if mechanism == _OAUTHBEARER else ("Basic",)
        transport = {name: value for name, value in client.items() if not name.startswith("sasl.")}
        settings = ClientSettings(None, {**transport, "security.protocol": _TRANSPORTS[protocol]}, {})
        self._bootstrap = settings.bootstrap_servers
        self._client_id = settings.client_id
        self._timeout_ms = min(settings.request_timeout_ms, _TIMEOUT_MS)
        self._tls = settings.make_security().tls
        self.audit: ServiceAudit = audit
        self._salt = os.urandom(32)
        self._gate = LoginGate()
        self._callers: dict[bytes, ClusterCaller] = {}
        self._attempts: dict[bytes, asyncio.Task[ClusterCaller]] = {}
        self._sweeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._sweeping = asyncio.create_task(self._sweep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [*self._attempts.values(), *([] if self._sweeping is None else [self._sweeping])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        callers, self._callers = list(self._callers.values()), {}
        await asyncio.gather(*(caller.close() for caller in callers))
        self.audit.close()

    async def admit(self, authorization: str, host: str) -> Caller:
        credential = read_credential(authorization)
        if credential is None:
            raise unauthorized()
        digest = hmac.digest(self._salt, authorization.encode(), hashlib.sha256)
        caller = self._callers.get(digest)
        if caller is not None and caller.is_valid:
            return caller.enter()
        attempt = self._attempts.get(digest)
        if attempt is None:
            attempt = self._attempts[digest] = asyncio.create_task(self._try(digest, credential, host))
            attempt.add_done_callback(lambda task: self._attempted(digest, task))
        # Shielded: one request may be given up while others with the same credential wait.
        return (await asyncio.shield(attempt)).enter()

    def _attempted(self, digest: bytes, task: "asyncio.Task[ClusterCaller]") -> None:
        self._attempts.pop(digest, None)
        if not task.cancelled():
            task.exception()  # marks it as retrieved: every request that waited may be gone

    async def _try(self, digest: bytes, credential: Credential, host: str) -> ClusterCaller:
        try:
            async with self._gate.attempt(digest, host):
                caller = await self._log_in(credential)
        except AuthenticationError as error:
            self.audit.deny_login(credential.user, host, str(error))
            raise unauthorized() from None
        except (ClientError, ApiError, RemoteProtocolError, OSError):
            raise Refusal(503, "The brokers cannot be asked who the user is; try again later") from None
        earlier = self._callers.pop(digest, None)
        self._callers[digest] = caller
        if earlier is not None:
            await earlier.expire()
        await self._make_room()
        return caller

    async def _log_in(self, credential: Credential) -> ClusterCaller:
        cluster = Cluster(
            self._bootstrap,
            client_id=self._client_id,
            request_timeout_ms=self._timeout_ms,
            security=Security(self._tls, self._login(credential)),
        )
        await cluster.connect()
        return ClusterCaller(credential.user, cluster)

    def _login(self, credential: Credential) -> ClientLogin:
        if credential.is_token:
            return OAuthLogin(_GivenToken(credential.secret))
        if self._password_mechanism in SCRAM_MECHANISMS:
            return ScramLogin(self._password_mechanism, credential.user, credential.secret)
        return PlainLogin(credential.user, credential.secret)

    async def _make_room(self) -> None:
        """Let the oldest logins end if there are too many; their users can log in again."""
        while len(self._callers) > HTTP_CALLERS_MAX:
            oldest = next(iter(self._callers))
            await self._callers.pop(oldest).expire()

    async def _sweep(self) -> None:
        """Close the connections of logins that are over."""
        while True:
            await asyncio.sleep(_SWEEP_INTERVAL_S)
            for digest in [digest for digest, caller in self._callers.items() if not caller.is_valid]:
                await self._callers.pop(digest).expire()
