"""The way from a frame to its reply: header, body, handler, errors.

Errors are translated for the client here only: a Kafka outcome becomes a reply with its code, a
malformed request closes the connection, and a bug in a handler becomes UNKNOWN_SERVER_ERROR for that
one request.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from tailrace.base.limits import REQUEST_ELEMENTS_MAX
from tailrace.base.text import printable
from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.codec import decode
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.frame import RequestHeader, decode_request_header, encode_response
from tailrace.protocol.message import Message
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.registry import response_type
from tailrace.runtime.broker import Broker
from tailrace.runtime.controller.forward import ForwardedClient
from tailrace.server.answer import answer
from tailrace.server.api import Api
from tailrace.server.connection import Buffer, Connection, ConnectionClosed
from tailrace.server.context import RequestContext, is_between_brokers
from tailrace.server.handlers import APIS
from tailrace.server.handlers.api_versions import unsupported_version
from tailrace.server.quota.edge import QuotaEdge
from tailrace.server.rejection_log import RejectionLog
from tailrace.server.security.audit import AuditLog
from tailrace.server.security.authorization import Authorization
from tailrace.server.security.login import take_bare_token

log = logging.getLogger("tailrace.server")

FIRST_FLEXIBLE_METADATA_VERSION = 9

Intercept = Callable[[RequestContext, Message], Awaitable[None]]
"""Runs before a handler; may wait, raise ApiError, or raise ConnectionClosed."""


class Dispatcher:
    """Serves the frames of every connection of a broker."""

    def __init__(
        self, broker: Broker, intercept: Intercept | None = None, authorization: Authorization | None = None
    ) -> None:
        self._broker = broker
        self._intercept = intercept
        self._rejections = RejectionLog()
        self.quotas = QuotaEdge(broker)
        self.audit = AuditLog(broker.clock)
        self._authorization = authorization

    async def serve(self, connection: Connection, frame: bytearray) -> list[Buffer] | None:
        """Serve one frame and return the encoded reply; None if the request asks for no reply."""
        session = connection.session
        if session is not None and session.takes_bare_tokens:
            return [*await take_bare_token(connection, session, bytes(frame))]
        quotas = self.quotas
        began_ns = quotas.clock_ns() if quotas.is_active else 0
        header, position = decode_request_header(frame)
        if session is not None:
            session.check(header.api_key)
        served = APIS.get(header.api_key)
        if served is None or (served.is_brokers and not is_between_brokers(self._broker, connection)):
            raise RemoteProtocolError(f"API key {header.api_key} is not served")
        if not served.version_min <= header.api_version <= served.version_max:
            return _refuse_version(served, header)
        request, end = decode(served.request_type, frame, header.api_version, position, REQUEST_ELEMENTS_MAX)
        if end != len(frame) and not _is_known_slip(request, header, len(frame) - end):
            # Kafka ignores them too. They are worth one line, because the client has a bug.
            connection.note_once(f"{served.key.name} v{header.api_version} with bytes after its end")
        context = RequestContext(
            self._broker, connection, header, self._rejections, self._authorization, self.audit, quotas
        )
        try:
            answering = self._answer(served, context, request)
            if began_ns:
                return await quotas.serve(context, request, len(frame), began_ns, answering, partial(_encode, header))
            response = await answering
            return None if response is None else _encode(header, response)
        except (RemoteProtocolError, ConnectionClosed):
            raise
        except Exception:
            client = printable(header.client_id or "")
            log.exception("%s v%d of client %s failed", served.key.name, header.api_version, client)
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed")
            return _encode(header, served.fail(context, request, error))

    def _answer(self, served: Api, context: RequestContext, request: Message) -> Awaitable[Message | None]:
        if self._intercept is None and not served.is_controllers:
            return answer(served, context, request)
        return self._intercept_or_forward(served, context, request)

    async def _intercept_or_forward(self, served: Api, context: RequestContext, request: Message) -> Message | None:
        try:
            if self._intercept is not None:
                await self._intercept(context, request)
            if served.is_controllers and not self._broker.controller.is_active:
                return await self._forward(served, context, request)
        except ApiError as error:
            return served.fail(context, request, error)
        return await answer(served, context, request)

    async def _forward(self, served: Api, context: RequestContext, request: Message) -> Message:
        client = ForwardedClient(context.principal, context.host, context.connection.is_token_authenticated)
        reply_type = response_type(served.key)
        return await self._broker.controller_forward.ask(request, reply_type, context.header, client)


def _is_known_slip(request: Message, header: RequestHeader, surplus_bytes: int) -> bool:
    """Return whether librdkafka asks for all topics: it writes the count with four bytes instead of one."""
    return (
        isinstance(request, MetadataRequest)
        and request.topics is None
        and header.api_version >= FIRST_FLEXIBLE_METADATA_VERSION
        and surplus_bytes == 3
    )


def _encode(header: RequestHeader, response: Message) -> list[Buffer]:
    return encode_response(header.correlation_id, response, header.api_version)


def _refuse_version(served: Api, header: RequestHeader) -> list[Buffer]:
    if served.key is ApiKey.API_VERSIONS:
        # In version 0, which every client can read, so that it can ask again.
        return encode_response(header.correlation_id, unsupported_version(), 0)
    raise RemoteProtocolError(f"{served.key.name} v{header.api_version} is not served")
