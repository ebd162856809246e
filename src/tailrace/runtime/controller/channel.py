"""The creation of topics that a broker needs itself, requested from the controller."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tailrace.base.limits import CONTROLLER_ANSWER_MS
from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller.image import ClusterImage, Topic
from tailrace.machines.controller.record import Record, TopicRecord
from tailrace.machines.controller.topic import NewTopic
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.topic import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from tailrace.runtime.peer import Peer
from tailrace.runtime.peer_queue import LOST
from tailrace.runtime.peer_route import PeerRoute

AskBroker = Callable[[int, CreateTopicsRequest], Awaitable[CreateTopicsResponse]]
"""Sends a request for topics to the broker with this id."""


class ControllerChannel:
    """Has the controller create topics, whether it is this broker or another one."""

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
        """Note new topics."""
        if any(isinstance(record, TopicRecord) for record in records):
            self._topics_moved.set()

    async def create_topic(self, new: NewTopic) -> Topic:
        """Have a topic created; raise the controller's error, or LEADER_NOT_AVAILABLE if the client should retry."""
        if self._is_controller():
            return await self._create_here(new)
        try:
            async with asyncio.timeout(CONTROLLER_ANSWER_MS / 1000):
                await self._create_there(new)
                # The controller's answer may arrive before the image has the topic.
                while (topic := self._image.topics.get(new.name)) is None:
                    self._topics_moved.clear()
                    await self._topics_moved.wait()
        except TimeoutError as error:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "the controller did not create the topic in time") from error
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
        except LOST as error:
            raise ApiError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"the controller, broker {controller_id}, cannot be reached: {error}"
            ) from error
        (told,) = response.topics
        code = ErrorCode(told.error_code)
        if code is ErrorCode.NOT_CONTROLLER:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "the controller has changed")
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise ApiError(code, told.error_message)


def ask_by_connection(image: ClusterImage, route: PeerRoute, broker_id: int) -> AskBroker:
    """Return a function that opens a connection for each request, because such requests are rare."""

    async def ask(controller_id: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
        peer = Peer(image, controller_id, route, f"broker-{broker_id}-to-controller")
        try:
            connection = await peer.connect()
            return await connection.request(request, CreateTopicsResponse)
        finally:
            await peer.close()

    return ask
