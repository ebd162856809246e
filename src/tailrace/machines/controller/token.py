"""The decisions on delegation tokens: their lives, and the principals that may change them.

A token is valid until it expires. Its owner and its renewers can postpone the expiry, up to the maximum that was set
when the token was created, or bring it forward.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.security_record import TokenRecord, TokenRemoved
from tailrace.protocol.errors import ApiError, ErrorCode


class TokenLife(NamedTuple):
    """The configs of the lives of tokens."""

    max_lifetime_ms: int
    expiry_time_ms: int


class TokenParties(NamedTuple):
    """The principals of a new token."""

    owner: str
    requester: str
    renewers: tuple[str, ...]


def decide_create_token(
    token_id: str, parties: TokenParties, max_lifetime_ms: int, life: TokenLife, now_ms: int
) -> TokenRecord:
    """Return a new token. The client may ask for a shorter life than the configured one; 0 and less ask for that."""
    longest_ms = min(max_lifetime_ms, life.max_lifetime_ms) if max_lifetime_ms > 0 else life.max_lifetime_ms
    max_timestamp = now_ms + longest_ms
    expiry_timestamp = min(max_timestamp, now_ms + life.expiry_time_ms)
    return TokenRecord(token_id, *parties, now_ms, expiry_timestamp, max_timestamp)


def decide_renew_token(token: TokenRecord, principal: str, period_ms: int, life: TokenLife, now_ms: int) -> TokenRecord:
    """Return the token with a later expiry, or raise `ApiError`. A period of 0 and less is the configured one."""
    if is_expired(token, now_ms):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    _check_renewer(token, principal)
    renewed_ms = min(period_ms, life.expiry_time_ms) if period_ms > 0 else life.expiry_time_ms
    return replace(token, expiry_timestamp=min(token.max_timestamp, now_ms + renewed_ms))


def decide_expire_token(token: TokenRecord, principal: str, period_ms: int, now_ms: int) -> TokenRecord | TokenRemoved:
    """Return the token with another expiry, or its removal for a negative period; raise `ApiError` if not allowed."""
    _check_renewer(token, principal)
    if period_ms < 0:
        return TokenRemoved(token.token_id)
    if is_expired(token, now_ms):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return replace(token, expiry_timestamp=min(token.max_timestamp, now_ms + period_ms))


def decide_sweep(image: ClusterImage, now_ms: int, count_max: int) -> list[TokenRemoved]:
    """Return the removals of expired tokens, so many at once."""
    expired = [token.token_id for token in image.tokens.values() if is_expired(token, now_ms)]
    return [TokenRemoved(token_id) for token_id in expired[:count_max]]


def tokens_of(image: ClusterImage, owners: frozenset[str] | None) -> Iterator[TokenRecord]:
    """Yield the tokens that concern owners, in the order of their ids; None yields all."""
    for token_id in sorted(image.tokens):
        token = image.tokens[token_id]
        if owners is None or any(concerns(token, owner) for owner in owners):
            yield token


def is_expired(token: TokenRecord, now_ms: int) -> bool:
    """Whether a token is not valid any more."""
    return min(token.expiry_timestamp, token.max_timestamp) < now_ms


def concerns(token: TokenRecord, principal: str) -> bool:
    """Whether a principal owns a token, asked for it or may renew it, and so may see it."""
    return principal == token.requester or is_party(token, principal)


def is_party(token: TokenRecord, principal: str) -> bool:
    """Whether a principal owns a token or may renew it."""
    return principal == token.owner or principal in token.renewers


def _check_renewer(token: TokenRecord, principal: str) -> None:
    if not is_party(token, principal):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
