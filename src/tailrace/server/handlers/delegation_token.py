"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken (KIP-48, KIP-373).

The secret of a token, its HMAC, is the password with which its holder logs in through SCRAM, with the token's id as the
name. A principal other than a user cannot own a token here: it would log in as the user of that name.
"""

from base64 import urlsafe_b64encode
from uuid import uuid4

from tailrace.base.security_limits import TOKEN_RENEWERS_MAX, USER_NAME_LENGTH_MAX
from tailrace.machines.controller.security_record import TokenRecord, TokenRemoved
from tailrace.machines.controller.token import (
    TokenLife,
    TokenParties,
    concerns,
    decide_create_token,
    decide_expire_token,
    decide_renew_token,
    tokens_of,
)
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribeDelegationTokenResponseRenewer,
    DescribeDelegationTokenResponseToken,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tailrace.runtime.controller.token import change_token, create_token
from tailrace.runtime.controller.token_index import token_hmac
from tailrace.server.api import api
from tailrace.server.connection import ANONYMOUS
from tailrace.server.context import Operation, RequestContext, Resource

_NO_TIME = -1
_UNSET_TIME = 0
_REFUSED_BY_BROKER = {
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_PRINCIPAL_TYPE,
}
_USER = "User"
_FIRST_VERSION_WITH_REQUESTER = 3  # KIP-373


def _check_connection(ctx: RequestContext) -> None:
    """Raise `ApiError` unless the client has authenticated, and not with a token: tokens beget no tokens."""
    connection = ctx.connection
    is_anonymous = connection.security_protocol == "SSL" and ctx.principal == ANONYMOUS
    if connection.is_token_authenticated or connection.security_protocol == "PLAINTEXT" or is_anonymous:
        message = "Delegation tokens need a client that has authenticated, and not with a delegation token"
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, message)


def _key(ctx: RequestContext) -> str:
    """Return the secret of all tokens, or raise `ApiError` if the brokers have none."""
    key = ctx.broker.config.delegation_token_secret_key
    if not key:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "delegation.token.secret.key is not set")
    return key


def _failed_time(error: ApiError) -> int:
    """Return the time in a reply without a token: Kafka's brokers set -1, and its controller leaves 0."""
    return _NO_TIME if error.code in _REFUSED_BY_BROKER else _UNSET_TIME


def _life(ctx: RequestContext) -> TokenLife:
    config = ctx.broker.config
    return TokenLife(config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms)


# --- CreateDelegationToken


def fail_create(
    ctx: RequestContext, request: CreateDelegationTokenRequest, error: ApiError
) -> CreateDelegationTokenResponse:
    return _created(ctx, _owner(ctx, request), error=error)


@api(CreateDelegationTokenRequest, versions=(1, 3), fail=fail_create)
async def create_delegation_token(
    ctx: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Create a token for the client, or for another owner if the client may do that."""
    _check_connection(ctx)
    owner = _owner(ctx, request)
    if owner != ctx.principal and not ctx.is_allowed(Operation.CREATE_TOKENS, Resource.USER, owner):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    renewers = tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers)
    _check_principals(owner, *renewers)
    key = _key(ctx)
    parties = TokenParties(owner, ctx.principal, renewers)
    now_ms = ctx.broker.clock.now_ms()
    token = decide_create_token(_new_id(), parties, request.max_lifetime_ms, _life(ctx), now_ms)
    await create_token(ctx.broker.controller, ctx.broker.image, token)
    return _created(ctx, owner, token, key)


def _owner(ctx: RequestContext, request: CreateDelegationTokenRequest) -> str:
    if not request.owner_principal_name:
        return ctx.principal
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"


def _check_principals(*principals: str) -> None:
    if any(principal.partition(":")[0] != _USER for principal in principals):
        raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE, "The owner and the renewers of a token must be users")
    if len(principals) > TOKEN_RENEWERS_MAX + 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"A token has at most {TOKEN_RENEWERS_MAX} renewers")
    if any(len(principal) > USER_NAME_LENGTH_MAX for principal in principals):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"A principal has at most {USER_NAME_LENGTH_MAX} characters")


def _new_id() -> str:
    """Return an id as Kafka's are: 22 letters, without a hyphen at the start, which a tool could take for an option."""
    while (token_id := urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return token_id


def _created(
    ctx: RequestContext, owner: str, token: TokenRecord | None = None, key: str = "", error: ApiError | None = None
) -> CreateDelegationTokenResponse:
    principal_type, _, principal_name = owner.partition(":")
    no_time = _failed_time(error) if error else _NO_TIME
    response = CreateDelegationTokenResponse(
        error_code=error.code if error else ErrorCode.NONE,
        principal_type=principal_type,
        principal_name=principal_name,
        issue_timestamp_ms=token.issue_timestamp if token else no_time,
        expiry_timestamp_ms=token.expiry_timestamp if token else no_time,
        max_timestamp_ms=token.max_timestamp if token else no_time,
        token_id=token.token_id if token else "",
        hmac=token_hmac(key, token.token_id) if token else b"",
    )
    if ctx.version >= _FIRST_VERSION_WITH_REQUESTER:
        requester_type, _, requester_name = ctx.principal.partition(":")
        response.token_requester_principal_type = requester_type
        response.token_requester_principal_name = requester_name
    return response


# --- RenewDelegationToken and ExpireDelegationToken


def fail_renew(
    ctx: RequestContext, request: RenewDelegationTokenRequest, error: ApiError
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=_failed_time(error))


@api(RenewDelegationTokenRequest, versions=(1, 2), fail=fail_renew)
async def renew_delegation_token(
    ctx: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Let a token live longer, up to its maximum."""
    _check_connection(ctx)
    token_id, life, now_ms = _find(ctx, bytes(request.hmac)), _life(ctx), ctx.broker.clock.now_ms()
    renewed = await change_token(
        ctx.broker.controller,
        ctx.broker.image,
        token_id,
        lambda token: decide_renew_token(token, ctx.principal, request.renew_period_ms, life, now_ms),
    )
    return RenewDelegationTokenResponse(expiry_timestamp_ms=_expiry(renewed, now_ms))


def fail_expire(
    ctx: RequestContext, request: ExpireDelegationTokenRequest, error: ApiError
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=_failed_time(error))


@api(ExpireDelegationTokenRequest, versions=(1, 2), fail=fail_expire)
async def expire_delegation_token(
    ctx: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Set when a token expires; a negative period removes it now."""
    _check_connection(ctx)
    token_id, now_ms = _find(ctx, bytes(request.hmac)), ctx.broker.clock.now_ms()
    expired = await change_token(
        ctx.broker.controller,
        ctx.broker.image,
        token_id,
        lambda token: decide_expire_token(token, ctx.principal, request.expiry_time_period_ms, now_ms),
    )
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=_expiry(expired, now_ms))


def _find(ctx: RequestContext, secret: bytes) -> str:
    """Return the id of the token with this HMAC, or raise `ApiError`."""
    _key(ctx)
    token_id = ctx.broker.token_index.find(secret)
    if token_id is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token_id


def _expiry(outcome: TokenRecord | TokenRemoved, now_ms: int) -> int:
    return now_ms if isinstance(outcome, TokenRemoved) else outcome.expiry_timestamp


# --- DescribeDelegationToken


def fail_describe(
    ctx: RequestContext, request: DescribeDelegationTokenRequest, error: ApiError
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=error.code)


@api(DescribeDelegationTokenRequest, versions=(1, 3), fail=fail_describe)
async def describe_delegation_token(
    ctx: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """List the tokens of owners, or all, that the client owns, asked for, may renew, or is allowed to describe."""
    _check_connection(ctx)
    key = _key(ctx)
    owners = None
    if request.owners is not None:
        owners = frozenset(f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners)
    found = [token for token in tokens_of(ctx.broker.image, owners) if _may_describe(ctx, token)]
    return DescribeDelegationTokenResponse(tokens=[_described(ctx, token, key) for token in found])


def _may_describe(ctx: RequestContext, token: TokenRecord) -> bool:
    return (
        concerns(token, ctx.principal)
        or ctx.is_allowed(Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token.token_id, is_probe=True)
        or ctx.is_allowed(Operation.DESCRIBE_TOKENS, Resource.USER, token.owner, is_probe=True)
    )


def _described(ctx: RequestContext, token: TokenRecord, key: str) -> DescribeDelegationTokenResponseToken:
    owner_type, _, owner_name = token.owner.partition(":")
    response = DescribeDelegationTokenResponseToken(
        principal_type=owner_type,
        principal_name=owner_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiry_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(key, token.token_id),
    )
    for renewer in token.renewers:
        renewer_type, _, renewer_name = renewer.partition(":")
        response.renewers.append(
            DescribeDelegationTokenResponseRenewer(principal_type=renewer_type, principal_name=renewer_name)
        )
    if ctx.version >= _FIRST_VERSION_WITH_REQUESTER:
        requester_type, _, requester_name = token.requester.partition(":")
        response.token_requester_principal_type = requester_type
        response.token_requester_principal_name = requester_name
    return response
