"""Envelope: a request that another broker forwards to the controller for a client (KIP-590).

The request is answered as if the client had sent it: its rights count, not those of the broker. The envelope says who
the client is, so its sender can act as any user. Only the listener between brokers serves this API, and only to super
users and principals with an ACL that allows CLUSTER_ACTION on the cluster. In Kafka, whose controllers have a listener
of their own, `allow.everyone.if.no.acl.found` is enough; here clients may use the same listener as brokers.

Without an authorizer every client may do everything, also change the quotas and the passwords of other users. Then an
envelope gives it nothing more than another name in the audit log, and so the audit log names the sender as well.
"""

from ipaddress import ip_address
from math import ceil

from tailrace.base.limits import REQUEST_ELEMENTS_MAX
from tailrace.base.sentinel import INT32_MAX
from tailrace.protocol.codec import decode
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.frame import LENGTH_BYTES, RequestHeader, decode_request_header, encode_response
from tailrace.protocol.message import Message
from tailrace.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tailrace.protocol.principal import decode_principal
from tailrace.server.answer import answer
from tailrace.server.api import APIS, Api, api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource

_ADDRESS_BYTES = (4, 16)


def fail(ctx: RequestContext, request: EnvelopeRequest, error: ApiError) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=error.code)


@api(EnvelopeRequest, versions=(0, 0), fail=fail, is_brokers=True)
async def envelope(ctx: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """Answer the request in the envelope."""
    if not ctx.is_granted(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    served, header, inner = _open(request)
    context = ctx.forwarded(header, *_client(request))
    if not ctx.broker.controller.is_active:
        raise ApiError(ErrorCode.NOT_CONTROLLER, "This broker is not the controller.")
    response = await answer(served, context, inner)
    if context.quota is not None and response is not None:
        # The broker that forwarded the request pauses its client.
        response.throttle_time_ms = min(ceil(context.quota.throttle_ms), INT32_MAX)  # type: ignore[attr-defined]
    frame = b"" if response is None else b"".join(encode_response(header.correlation_id, response, header.api_version))
    return EnvelopeResponse(response_data=frame[LENGTH_BYTES:])


def _open(request: EnvelopeRequest) -> tuple[Api, RequestHeader, Message]:
    """Return the request in an envelope; raise unless it is one that brokers forward."""
    data = memoryview(request.request_data)
    try:
        header, position = decode_request_header(data)
        served = APIS.get(header.api_key)
        if served is None or not served.is_controllers:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"API key {header.api_key} is not forwarded")
        if not served.version_min <= header.api_version <= served.version_max:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{served.key.name} v{header.api_version} is not served")
        inner, _ = decode(served.request_type, data, header.api_version, position, REQUEST_ELEMENTS_MAX)
    except RemoteProtocolError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the request in the envelope is malformed: {error}") from error
    return served, header, inner


def _client(request: EnvelopeRequest) -> tuple[str, str]:
    """Return the principal and the address of the client."""
    address = bytes(request.client_host_address)
    if len(address) not in _ADDRESS_BYTES:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the address of the client has {len(address)} bytes")
    try:
        principal, _ = decode_principal(request.request_principal or b"")
    except RemoteProtocolError as error:
        raise ApiError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    return principal, str(ip_address(address))
