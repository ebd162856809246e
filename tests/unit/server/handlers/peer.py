"""A client of the dispatcher: real frames in, real frames out, and no socket in between."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import UUID

from tests.unit.sample import LISTENER, BrokerInMemory

from tailrace.protocol.frame import decode_response, encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
)
from tailrace.protocol.messages.topic import CreateTopicsRequest, CreateTopicsRequestConfig, CreateTopicsRequestTopic
from tailrace.protocol.registry import response_type
from tailrace.runtime.broker import Broker
from tailrace.server.connection import Connection
from tailrace.server.dispatch import Dispatcher, Intercept
from tailrace.server.quota.pause import Pause
from tailrace.server.security.authorization import make_authorization


class Line:
    """What handlers know of a connection."""

    def __init__(self) -> None:
        self.listener_name = LISTENER
        self.host = self.local_host = "127.0.0.1"
        self.peer = "127.0.0.1:50000"
        self.principal = "User:ANONYMOUS"
        self.security_protocol = "PLAINTEXT"
        self.session = None
        self.is_token_authenticated = False
        self.client_software = ""
        self.reply_bytes_max = 2**31 - 1
        self.is_abandoned = False
        self.notes: list[str] = []
        self.pauses: list[Pause] = []
        self.interrupts: list[Callable[[], None]] = []

    def pause(self, pause: Pause) -> None:
        self.pauses.append(pause)

    def note_once(self, text: str) -> None:
        self.notes.append(text)

    def when_ending(self, interrupt: Callable[[], None]) -> None:
        self.interrupts.append(interrupt)


class Peer:
    """Asks a broker."""

    def __init__(self, broker: Broker, machine: BrokerInMemory, intercept: Intercept | None = None) -> None:
        self.broker = broker
        self.machine = machine
        self.line = Line()
        self._dispatcher = Dispatcher(broker, intercept, make_authorization(broker))
        self._correlation_id = 0

    async def serve(self, frame: bytes) -> bytes | None:
        """The frame that answers a frame, both without their lengths."""
        reply = await self._dispatcher.serve(cast("Connection", self.line), bytearray(frame))
        if reply is None:
            return None
        data = b"".join(reply)
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        return data[4:]

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """The decoded reply; None when the request wants none. Without a version, the newest."""
        version = request.SCHEMA.versions[-1] if version is None else version
        self._correlation_id += 1
        asked_as = self._correlation_id  # others may ask before the reply is there
        frame = b"".join(encode_request(asked_as, "peer", request, version))
        reply = await self.serve(frame[4:])
        if reply is None:
            return None
        key = request.SCHEMA.key
        assert key is not None
        correlation_id, response = decode_response(response_type(key), reply, version)
        assert correlation_id == asked_as
        return response

    # --- what most tests need first

    async def create(self, name: str = "t", partition_count: int = 1, **configs: str) -> UUID:
        """A topic that works; config names are written with underscores."""
        settings = [CreateTopicsRequestConfig(name=key.replace("_", "."), value=configs[key]) for key in configs]
        topic = CreateTopicsRequestTopic(
            name=name, num_partitions=partition_count, replication_factor=1, configs=settings
        )
        response = await self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000))
        assert response.topics[0].error_code == 0, response
        return cast("UUID", response.topics[0].topic_id)

    async def produce(
        self, batch: bytes | bytearray | None, *, topic: str = "t", index: int = 0, acks: int = -1, version: int = 12
    ) -> ProduceResponsePartition:
        """One batch to one partition by name, and the partition's part of the reply."""
        response = await self.ask(produce_request({(topic, index): batch}, acks), version)
        return cast("ProduceResponsePartition", response.responses[0].partition_responses[0])


@asynccontextmanager
async def peer(
    machine: BrokerInMemory | None = None, *, intercept: Intercept | None = None, **settings: str
) -> AsyncIterator[Peer]:
    """A broker in memory and a client of it; setting names are written with underscores."""
    machine = machine or BrokerInMemory()
    async with machine.running(**settings) as broker:
        yield Peer(broker, machine, intercept)


def produce_request(batches: Mapping[tuple[str, int], bytes | bytearray | None], acks: int = -1) -> ProduceRequest:
    """One batch for each partition, by topic name."""
    topics: dict[str, ProduceRequestTopic] = {}
    for (name, index), batch in batches.items():
        topic = topics.setdefault(name, ProduceRequestTopic(name=name))
        topic.partition_data.append(ProduceRequestPartition(index=index, records=batch))
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=list(topics.values()))


def fetch_request(
    offsets: dict[tuple[str, int], int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 2**20,
    partition_max_bytes: int = 2**20,
    session_id: int = 0,
    session_epoch: int = -1,
) -> FetchRequest:
    """A fetch by topic name from these offsets; by default without waiting and without a session."""
    topics: dict[str, FetchRequestTopic] = {}
    for (name, index), offset in offsets.items():
        topic = topics.setdefault(name, FetchRequestTopic(topic=name))
        partition = FetchRequestPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        topic.partitions.append(partition)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=list(topics.values()),
    )


def error_codes(message: Any) -> list[int]:
    """Every error code anywhere in a message."""
    codes = []
    for field in message.SCHEMA.fields:
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code"):
            codes.append(value)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Message):
                codes += error_codes(part)
    return codes
