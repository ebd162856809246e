"""Forwarding of requests that only the controller can serve, from the broker that a client sent them to."""

import logging
from ipaddress import ip_address
from typing import NamedTuple

from tailrace.base.limits import CONTROLLER_ANSWER_MS
from tailrace.base.sentinel import NO_BROKER
from tailrace.client.error import ClientError
from tailrace.machines.authorization.host import canonical_host, is_address
from tailrace.machines.controller.image import ClusterImage
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.frame import LENGTH_BYTES, RequestHeader, decode_response, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tailrace.protocol.principal import encode_principal
from tailrace.runtime.peer import Peer
from tailrace.runtime.peer_route import PeerRoute

log = logging.getLogger("tailrace.runtime")

_NO_ADDRESS = "0.0.0.0"  # noqa: S104  for a client whose address is not known


class ForwardedClient(NamedTuple):
    """The client whose request is forwarded, by whose rights the controller judges it."""

    principal: str
    host: str
    is_token_authenticated: bool


class ControllerForward:
    """Sends requests of clients to the controller, each over its own connection, because they are rare."""

    def __init__(self, image: ClusterImage, route: PeerRoute, broker_id: int) -> None:
        self._image = image
        self._route = route
        self._client_id = f"broker-{broker_id}-to-controller"

    async def ask(
        self, request: Message, reply_type: type[Message], header: RequestHeader, client: ForwardedClient
    ) -> Message:
        """Return the controller's reply; raise NOT_CONTROLLER if there is no controller, so that the client retries."""
        controller_id = self._image.controller_id
        if controller_id == NO_BROKER:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "There is no controller at the moment.")
        peer = Peer(self._image, controller_id, self._route, self._client_id)
        timeout_ms = max(getattr(request, "timeout_ms", 0), CONTROLLER_ANSWER_MS)
        try:
            connection = await peer.connect()
            envelope = _seal(request, header, client)
            reply = await connection.request(envelope, EnvelopeResponse, timeout_ms=timeout_ms)
            return _open(reply, reply_type, header)
        except (ClientError, RemoteProtocolError, OSError) as error:
            raise ApiError(
                ErrorCode.NOT_CONTROLLER, f"The controller, broker {controller_id}, cannot be reached: {error}"
            ) from error
        finally:
            await peer.close()


def _seal(request: Message, header: RequestHeader, client: ForwardedClient) -> EnvelopeRequest:
    frame = b"".join(encode_request(header.correlation_id, header.client_id, request, header.api_version))
    return EnvelopeRequest(
        request_data=frame[LENGTH_BYTES:],
        request_principal=encode_principal(client.principal, is_token_authenticated=client.is_token_authenticated),
        client_host_address=ip_address(canonical_host(client.host) if is_address(client.host) else _NO_ADDRESS).packed,
    )


def _open(reply: EnvelopeResponse, reply_type: type[Message], header: RequestHeader) -> Message:
    code = ErrorCode(reply.error_code)
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        log.error("the controller does not let this broker forward requests: add its principal to super.users there")
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The broker may not forward requests to the controller.")
    if code is not ErrorCode.NONE:
        raise ApiError(code, "The controller did not accept the request.")
    _, response = decode_response(reply_type, reply.response_data or b"", header.api_version)
    return response
