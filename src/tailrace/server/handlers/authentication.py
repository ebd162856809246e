"""SaslHandshake and SaslAuthenticate."""

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tailrace.server.api import api
from tailrace.server.context import RequestContext
from tailrace.server.security.login import take_token


def fail_handshake(ctx: RequestContext, request: SaslHandshakeRequest, error: ApiError) -> SaslHandshakeResponse:
    session = ctx.connection.session
    return SaslHandshakeResponse(error_code=error.code, mechanisms=[] if session is None else session.mechanism_names)


@api(SaslHandshakeRequest, versions=(0, 1), fail=fail_handshake)
async def sasl_handshake(ctx: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin a login. On a listener without SASL a client counts as authenticated from the start."""
    session = ctx.connection.session
    if session is None:
        raise ApiError(ErrorCode.ILLEGAL_SASL_STATE)
    try:
        session.handshake(request.mechanism, ctx.version)
    except ApiError as error:
        if error.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            session.tell_refusal(f"the client wants the mechanism {request.mechanism}, which is not enabled")
            ctx.connection.close_after_reply("")
        raise
    return SaslHandshakeResponse(mechanisms=session.mechanism_names)


def fail_authenticate(
    ctx: RequestContext, request: SaslAuthenticateRequest, error: ApiError
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error.code, error_message=error.message)


@api(SaslAuthenticateRequest, versions=(0, 2), fail=fail_authenticate)
async def sasl_authenticate(ctx: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Answer a client's token."""
    session = ctx.connection.session
    if session is None:
        raise ApiError(ErrorCode.ILLEGAL_SASL_STATE, "the listener has no SASL, and its clients need not authenticate")
    answer = await take_token(ctx.connection, session, bytes(request.auth_bytes))
    return SaslAuthenticateResponse(auth_bytes=answer.token, session_lifetime_ms=answer.lifetime_ms)
