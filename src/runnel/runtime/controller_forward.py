"""Requests that only the controller can serve, sent on to it by whichever broker a client has asked."""

from runnel.base.limits import CONTROLLER_ANSWER_MS
from runnel.client.error import ClientError
from runnel.machines.controller.image import ClusterImage
from runnel.machines.controller.record import NO_BROKER
from runnel.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from runnel.protocol.message import Message
from runnel.runtime.peer import Peer

_SENDER = "-to-controller"


class ControllerForward:
    """Asks the controller in the name of clients, over a connection for each request: such requests are rare."""

    def __init__(self, image: ClusterImage, listener_name: str, broker_id: int) -> None:
        self._image = image
        self._listener_name = listener_name
        self._client_id = f"broker-{broker_id}{_SENDER}"

    async def ask(self, request: Message, reply_type: type[Message], version: int) -> Message:
        """The controller's reply; raises NOT_CONTROLLER, so that the client tries again, where there is none."""
        controller_id = self._image.controller_id
        if controller_id == NO_BROKER:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "There is no controller now.")
        peer = Peer(self._image, controller_id, self._listener_name, self._client_id)
        timeout_ms = max(getattr(request, "timeout_ms", 0), CONTROLLER_ANSWER_MS)
        try:
            connection = await peer.connect()
            return await connection.request(request, reply_type, version_max=version, timeout_ms=timeout_ms)
        except (ClientError, RemoteProtocolError, OSError) as error:
            raise ApiError(ErrorCode.NOT_CONTROLLER, f"The controller cannot be reached: {error}") from error
        finally:
            await peer.close()


def is_forwarded(client_id: str | None) -> bool:
    """Whether a request comes from a broker that took its receiver for the controller; it goes no further."""
    return client_id is not None and client_id.startswith("broker-") and client_id.endswith(_SENDER)
