"""The admin calls for users with SCRAM credentials (KIP-554)."""

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tailrace.client.cluster import Cluster
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUser,
    DescribeUserScramCredentialsResponse,
)
from tailrace.security.scram.credential import SALT_SIZE_BYTES, format_salt
from tailrace.security.scram.mechanism import ITERATIONS_MIN, SCRAM_MECHANISMS, Mechanism

_NAMES = {mechanism.code: mechanism.name for mechanism in SCRAM_MECHANISMS.values()}
_UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A credential that a user has: the mechanism, such as SCRAM-SHA-512, and the iterations."""

    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class NewScramCredential:
    """A credential to set. The password does not leave this process: the broker gets a hash of it, salted at random.

    The salts and iterations that brokers show for unknown users look like those of credentials with the default
    iterations; others let a client find out whether a user exists.
    """

    user: str
    password: str = field(repr=False)
    mechanism: str = "SCRAM-SHA-512"
    iterations: int = ITERATIONS_MIN


class ScramAdmin:
    """The admin calls for users with SCRAM credentials."""

    _cluster: Cluster
    _timeout_ms: int

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, list[ScramCredential] | ApiError]:
        """Return the credentials of users, or of all users that have any."""
        asked = None if users is None else [DescribeUserScramCredentialsRequestUser(name=name) for name in users]
        if asked == []:
            return {}
        request = DescribeUserScramCredentialsRequest(users=asked)
        reply = await self._cluster.request_any(request, DescribeUserScramCredentialsResponse)
        if error := _error(reply.error_code, reply.error_message):
            raise error
        return {
            result.user: _error(result.error_code, result.error_message)
            or [
                ScramCredential(_NAMES.get(info.mechanism, _UNKNOWN), info.iterations)
                for info in sorted(result.credential_infos, key=lambda info: info.mechanism)  # Kafka has no order
            ]
            for result in sorted(reply.results, key=lambda result: result.user)
        }

    async def alter_user_scram_credentials(
        self, upsertions: Sequence[NewScramCredential] = (), *, deletions: Iterable[tuple[str, str]] = ()
    ) -> dict[str, ApiError | None]:
        """Set credentials, and delete those with these users and mechanisms. A call may name a user once."""
        request = AlterUserScramCredentialsRequest(
            deletions=[
                AlterUserScramCredentialsRequestDeletion(name=user, mechanism=_mechanism(mechanism).code)
                for user, mechanism in deletions
            ],
            upsertions=[await asyncio.to_thread(_upsertion, credential) for credential in upsertions],
        )
        reply = await self._cluster.request_any(request, AlterUserScramCredentialsResponse)
        return {result.user: _error(result.error_code, result.error_message) for result in reply.results}


def _upsertion(credential: NewScramCredential) -> AlterUserScramCredentialsRequestUpsertion:
    mechanism = _mechanism(credential.mechanism)
    if not credential.password:
        raise ValueError(f"the password of {credential.user} is empty")
    salt = format_salt(secrets.token_bytes(SALT_SIZE_BYTES))
    return AlterUserScramCredentialsRequestUpsertion(
        name=credential.user,
        mechanism=mechanism.code,
        iterations=credential.iterations,
        salt=salt,
        salted_password=mechanism.salted_password(credential.password, salt, max(1, credential.iterations)),
    )


def _mechanism(name: str) -> Mechanism:
    mechanism = SCRAM_MECHANISMS.get(name.upper())
    if mechanism is None:
        raise ValueError(f"{name!r} is not a SCRAM mechanism; there are {' and '.join(SCRAM_MECHANISMS)}")
    return mechanism


def _error(code: int, message: str | None) -> ApiError | None:
    return ApiError(ErrorCode(code), message) if code else None
