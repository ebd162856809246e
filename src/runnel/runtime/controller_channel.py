"""Topics that a broker needs and only the controller can make: asked of it, wherever it is."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from runnel.base.limits import CONTROLLER_ANSWER_MS
from runnel.client.error import BrokerUnavailable, RequestTimeout
from runnel.machines.controller.image import ClusterImage, Topic
from runnel.machines.controller.record import NO_BROKER, Record, TopicRecord
from runnel.machines.controller.topic import NewTopic
from runnel.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from runnel.protocol.messages.topic import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from runnel.runtime.peer import Peer

_LOST = (BrokerUnavailable, RequestTimeout, RemoteProtocolError, OSError)


AskBroker = Callable[[int, CreateTopicsRequest], Awaitable[CreateTopicsResponse]]
"""How the broker of an id is asked for topics."""


class ControllerChannel:
    """Has topics made by the controller, be it this broker or another."""

    def __init__(
        self,
        image: ClusterImage,
        is_controller: Callable[[], bool],
        create_here: Callable[[NewTopic], Awaitable[Topic]],
        ask: AskBroker,
    ) -> None:
        self._image = image
        self._is_controller = is_controller
        self._create_here = create_here
        self._ask = ask
        self._topics_moved = asyncio.Event()

    def on_records(self, records: Sequence[Record]) -> None:
        """Take note of new topics."""
        if any(isinstance(record, TopicRecord) for record in records):
            self._topics_moved.set()

    async def create_topic(self, new: NewTopic) -> Topic:
        """Have a topic made; raises the controller's error, or LEADER_NOT_AVAILABLE to try again later."""
        if self._is_controller():
            return await self._create_here(new)
        try:
            async with asyncio.timeout(CONTROLLER_ANSWER_MS / 1000):
                await self._create_there(new)
                # The controller's answer may overtake the news of the topic.
                while (topic := self._image.topics.get(new.name)) is None:
                    self._topics_moved.clear()
                    await self._topics_moved.wait()
        except TimeoutError as error:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "the controller does not answer") from error
        return topic

    async def _create_there(self, new: NewTopic) -> None:
        controller_id = self._image.controller_id
        if controller_id == NO_BROKER:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "there is no controller")
        asked = CreateTopicsRequestTopic(
            name=new.name,
            num_partitions=new.partition_count,
            replication_factor=new.replication_factor,
            configs=[CreateTopicsRequestConfig(name=name, value=value) for name, value in (new.configs or {}).items()],
        )
        try:
            response = await self._ask(
                controller_id, CreateTopicsRequest(topics=[asked], timeout_ms=CONTROLLER_ANSWER_MS)
            )
        except _LOST as error:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"the controller cannot be reached: {error}") from error
        (told,) = response.topics
        code = ErrorCode(told.error_code)
        if code is ErrorCode.NOT_CONTROLLER:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "the controller has changed")
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise ApiError(code, told.error_message)


def ask_by_connection(image: ClusterImage, listener_name: str, broker_id: int) -> AskBroker:
    """Ask over a connection that is made for the one request: topics are rarely made this way."""

    async def ask(controller_id: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
        peer = Peer(image, controller_id, listener_name, f"broker-{broker_id}-to-controller")
        try:
            connection = await peer.connect()
            return await connection.request(request, CreateTopicsResponse)
        finally:
            await peer.close()

    return ask
