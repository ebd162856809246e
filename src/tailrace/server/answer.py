"""The way from a request to its reply, once it is known which broker answers it."""

import logging

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.message import Message
from tailrace.server.api import Api
from tailrace.server.context import RequestContext
from tailrace.server.security.audit_change import AUDITED
from tailrace.storage.error import StorageError

log = logging.getLogger("tailrace.server")


async def answer(served: Api, context: RequestContext, request: Message) -> Message | None:
    """Have the handler answer, translate its error for the client, and write down what the request has changed."""
    try:
        response = await served.handle(context, request)
    except ApiError as error:
        response = served.fail(context, request, error)
    except StorageError as error:
        log.error("%s failed: %s", served.key.name, error)
        response = served.fail(context, request, ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "a log folder failed"))
    if type(request) in AUDITED and context.audit is not None and response is not None:
        context.audit.note(context, request, response)
    return response
