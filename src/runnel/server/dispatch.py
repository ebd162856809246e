"""From a frame to its reply: header, body, handler, errors.

The one place where errors of different kinds become what the peer sees: a Kafka outcome
becomes a reply that carries its code, a broken request closes the connection, and a bug in
a handler answers UNKNOWN_SERVER_ERROR to that one request.
"""

import logging
from collections.abc import Awaitable, Callable

from runnel.base.limits import REQUEST_ELEMENTS_MAX
from runnel.base.text import printable
from runnel.protocol.api_key import ApiKey
from runnel.protocol.codec import decode
from runnel.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from runnel.protocol.frame import RequestHeader, decode_request_header, encode_response
from runnel.protocol.message import Message
from runnel.protocol.messages.metadata import MetadataRequest
from runnel.protocol.registry import response_type
from runnel.runtime.broker import Broker
from runnel.runtime.controller_forward import is_forwarded
from runnel.server.api import APIS, Api
from runnel.server.connection import Buffer, Connection, ConnectionClosed
from runnel.server.context import RequestContext
from runnel.server.handlers.api_versions import unsupported_version
from runnel.storage.error import StorageError

log = logging.getLogger("runnel.server")

FIRST_FLEXIBLE_METADATA_VERSION = 9

Intercept = Callable[[RequestContext, Message], Awaitable[None]]
"""Runs before a handler; may wait, raise ApiError, or raise ConnectionClosed."""


class Dispatcher:
    """Serves the frames of every connection of a broker."""

    def __init__(self, broker: Broker, intercept: Intercept | None = None) -> None:
        self._broker = broker
        self._intercept = intercept

    async def serve(self, connection: Connection, frame: bytearray) -> list[Buffer] | None:
        """The reply to one frame, ready to be written; None when the request wants none."""
        header, position = decode_request_header(frame)
        served = APIS.get(header.api_key)
        if served is None:
            raise RemoteProtocolError(f"API key {header.api_key} is not served")
        if not served.version_min <= header.api_version <= served.version_max:
            return _refuse_version(served, header)
        request, end = decode(served.request_type, frame, header.api_version, position, REQUEST_ELEMENTS_MAX)
        if end != len(frame) and not _is_known_slip(request, header, len(frame) - end):
            # Kafka ignores them too; a client that sends them is worth one line.
            connection.note_once(f"{served.key.name} v{header.api_version} with bytes after its end")
        context = RequestContext(self._broker, connection, header)
        try:
            response = await self._answer(served, context, request)
            return None if response is None else _encode(header, response)
        except (RemoteProtocolError, ConnectionClosed):
            raise
        except Exception:
            client = printable(header.client_id or "")
            log.exception("%s v%d of client %s failed", served.key.name, header.api_version, client)
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker failed")
            return _encode(header, served.fail(context, request, error))

    async def _answer(self, served: Api, context: RequestContext, request: Message) -> Message | None:
        try:
            if self._intercept is not None:
                await self._intercept(context, request)
            if served.is_controllers and self._is_to_be_forwarded(context):
                reply_type = response_type(served.key)
                return await self._broker.controller_forward.ask(request, reply_type, context.version)
            return await served.handle(context, request)
        except ApiError as error:
            return served.fail(context, request, error)
        except StorageError as error:
            log.error("%s failed: %s", served.key.name, error)
            return served.fail(context, request, ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "a log folder failed"))

    def _is_to_be_forwarded(self, context: RequestContext) -> bool:
        return not self._broker.controller.is_active and not is_forwarded(context.header.client_id)


def _is_known_slip(request: Message, header: RequestHeader, surplus_bytes: int) -> bool:
    """Whether it is librdkafka that asks for all topics: it leaves the count four bytes wide where one is read."""
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
        # Said in version 0, which every client can read, so that it can ask again.
        return encode_response(header.correlation_id, unsupported_version(), 0)
    raise RemoteProtocolError(f"{served.key.name} v{header.api_version} is not served")
