"""The admin calls for delegation tokens (KIP-48, KIP-373)."""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field

from tailrace.client.cluster import Cluster
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestRenewer,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenRequestOwner,
    DescribeDelegationTokenResponse,
    DescribeDelegationTokenResponseToken,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

_DEFAULT_MS = -1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token with which a client logs in by SCRAM as its owner, until it expires.

    The id of the token is the user name, and `hmac` is the password. Principals have the form `User:alice`.
    """

    token_id: str
    hmac: str = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int


class TokenAdmin:
    """The admin calls for delegation tokens. Brokers answer them to clients that have logged in with a password."""

    _cluster: Cluster
    _timeout_ms: int

    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = _DEFAULT_MS
    ) -> DelegationToken:
        """Create a token for the user of this client, or for an owner such as `User:alice`.

        The broker limits its life; -1 asks for the longest. Renewers may renew it and expire it, as its owner may.
        """
        renewers = tuple(renewers)
        request = CreateDelegationTokenRequest(
            renewers=[
                CreateDelegationTokenRequestRenewer(principal_type=kind, principal_name=name)
                for kind, name in map(_parse, renewers)
            ],
            max_lifetime_ms=max_lifetime_ms,
        )
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = _parse(owner)
        reply = await self._cluster.request_any(request, CreateDelegationTokenResponse)
        _raise_error(reply.error_code)
        return DelegationToken(
            reply.token_id,
            base64.b64encode(reply.hmac).decode(),
            *_parties(reply),
            renewers,
            reply.issue_timestamp_ms,
            reply.expiry_timestamp_ms,
            reply.max_timestamp_ms,
        )

    async def renew_delegation_token(self, hmac: str, *, renew_period_ms: int = _DEFAULT_MS) -> int:
        """Let a token live that much longer from now, -1 for the broker's default; return when it expires."""
        request = RenewDelegationTokenRequest(hmac=_decode(hmac), renew_period_ms=renew_period_ms)
        reply = await self._cluster.request_any(request, RenewDelegationTokenResponse)
        _raise_error(reply.error_code)
        return reply.expiry_timestamp_ms

    async def expire_delegation_token(self, hmac: str, *, expiry_period_ms: int = _DEFAULT_MS) -> int:
        """Let a token expire in that time from now, or remove it at once for -1; return when it expires."""
        request = ExpireDelegationTokenRequest(hmac=_decode(hmac), expiry_time_period_ms=expiry_period_ms)
        reply = await self._cluster.request_any(request, ExpireDelegationTokenResponse)
        _raise_error(reply.error_code)
        return reply.expiry_timestamp_ms

    async def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """Return the tokens of owners, or all, that the user of this client may see."""
        asked = None
        if owners is not None:
            asked = [
                DescribeDelegationTokenRequestOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_parse, owners)
            ]
        request = DescribeDelegationTokenRequest(owners=asked)
        reply = await self._cluster.request_any(request, DescribeDelegationTokenResponse)
        _raise_error(reply.error_code)
        found = [
            DelegationToken(
                token.token_id,
                base64.b64encode(token.hmac).decode(),
                *_parties(token),
                tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers),
                token.issue_timestamp,
                token.expiry_timestamp,
                token.max_timestamp,
            )
            for token in reply.tokens
        ]
        return sorted(found, key=lambda token: (token.issue_timestamp_ms, token.token_id))


def _parties(token: CreateDelegationTokenResponse | DescribeDelegationTokenResponseToken) -> tuple[str, str]:
    """Return the owner and the requester; before KIP-373 they were the same."""
    owner = f"{token.principal_type}:{token.principal_name}"
    if not token.token_requester_principal_name:
        return owner, owner
    return owner, f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"


def _parse(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"{principal!r} is not a principal such as User:alice")
    return kind, name


def _decode(hmac: str) -> bytes:
    try:
        return base64.b64decode(hmac, validate=True)
    except binascii.Error:
        raise ValueError("the HMAC of a delegation token must be base64") from None


def _raise_error(code: int) -> None:
    if code:
        error = ErrorCode(code)
        raise ApiError(error, _ADVICE.get(error))


_ADVICE = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the brokers have no delegation tokens; set delegation.token.secret.key",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "only a client that has logged in, and not with a delegation token, may ask for delegation tokens"
    ),
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "there is no delegation token with this HMAC",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "only the owner and the renewers may renew or expire a delegation token",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "creating a delegation token for another user needs the right create_tokens on that user"
    ),
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "the delegation token has expired",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "the owner and the renewers of a delegation token must be users, as User:NAME",
}
"""Texts for the errors of brokers, which have none in these replies."""
