"""The steps of a login that requests and bare tokens share."""

import asyncio
from struct import Struct

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.security.exchange import AuthenticationFailed
from tailrace.server.connection import Connection, ConnectionClosed
from tailrace.server.security.session import Answer, SaslSession

_LENGTH = Struct(">i")


async def take_token(connection: Connection, session: SaslSession, token: bytes) -> Answer:
    """Return the answer to a client's token, or raise `ApiError` with the text for the client, after a delay."""
    try:
        return await session.respond(token)
    except AuthenticationFailed as failure:
        connection.close_after_reply("")
        session.tell_refusal(failure.reason)
        await asyncio.sleep(session.failure_delay_s)
        raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, failure.public_text) from None


async def take_bare_token(connection: Connection, session: SaslSession, token: bytes) -> list[bytes]:
    """Return the answer to a token without a header, which has none either; a refused client gets no answer."""
    try:
        answer = await take_token(connection, session, token)
    except ApiError:
        raise ConnectionClosed("") from None
    return [_LENGTH.pack(len(answer.token)), answer.token]
