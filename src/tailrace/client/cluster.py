"""A cluster: connections to its brokers, the leaders of partitions, and retries when these change.

Connections are opened on first use and kept. A broker serves the requests of a connection one after
the other, so a long poll delays all requests behind it. Connections therefore have lanes: every
consumer and producer uses its own lane, and all other requests share one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar
from uuid import UUID

from tailrace.base import chance
from tailrace.base.task import ignore_exception
from tailrace.client.address import Address, parse_addresses
from tailrace.client.backoff import Backoff, Deadline
from tailrace.client.connection import Connection
from tailrace.client.error import AuthenticationError, BootstrapError, BrokerUnavailable, ClientError, RequestTimeout
from tailrace.client.leader_hint import Hints, take_hints
from tailrace.client.metadata import EMPTY_VIEW, NO_LEADER, ClusterView, Topic, read_metadata
from tailrace.client.security.security import PLAINTEXT, Security
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.message import Message
from tailrace.protocol.messages.fetch import FetchResponseNode
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tailrace.protocol.messages.produce import ProduceResponseNode

R = TypeVar("R", bound=Message)
T = TypeVar("T")

UNKNOWN_TOPIC_TIMEOUT_MS = 1_000
"""How long a client retries an unknown topic: brokers learn of a new topic at different times."""


SHARED_LANE = "shared"
"""The lane of requests that brokers answer at once."""


class Cluster:
    """The brokers behind a list of addresses. Use it as an async context manager."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[Address],
        *,
        client_id: str = "tailrace",
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1_000,
        metadata_max_age_ms: int = 300_000,
        security: Security = PLAINTEXT,
    ) -> None:
        if isinstance(bootstrap_servers, str):
            bootstrap_servers = parse_addresses(bootstrap_servers)
        self.bootstrap: tuple[Address, ...] = tuple(bootstrap_servers)
        self.view: ClusterView = EMPTY_VIEW
        self.backoff = Backoff(retry_backoff_ms, retry_backoff_max_ms)
        self.request_timeout_ms = request_timeout_ms
        self._client_id = client_id
        self._security = security
        self._metadata_max_age_s = metadata_max_age_ms / 1000
        self._learned_at_s: dict[str, float] = {}
        self._connections: dict[tuple[Address, Hashable], asyncio.Task[Connection]] = {}

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connect to one of the addresses and read the list of brokers.

        Raises `BootstrapError` at once if none answers, and `AuthenticationError` if one refuses the client.
        """
        try:
            await self.refresh([])
        except AuthenticationError:
            await self.close()
            raise
        except (ClientError, RemoteProtocolError) as error:
            await self.close()
            raise BootstrapError(str(error)) from error
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every connection."""
        await self._close(list(self._connections))

    async def close_lane(self, lane: Hashable) -> None:
        """Close the connections of one lane."""
        await self._close([key for key in self._connections if key[1] == lane])

    async def _close(self, keys: Iterable[tuple[Address, Hashable]]) -> None:
        tasks = [self._connections.pop(key) for key in keys]
        for task in tasks:
            task.cancel()
        for opened in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(opened, Connection):
                await opened.close()

    # --- metadata

    async def refresh(self, topics: Iterable[str] | None = None, *, allow_auto_create: bool = False) -> ClusterView:
        """Request the metadata of these topics, or of all for None, and return the merged view."""
        names = None if topics is None else list(dict.fromkeys(topics))
        request = MetadataRequest(
            topics=None if names is None else [MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=allow_auto_create,
        )
        newer = read_metadata(await self.request_any(request, MetadataResponse))
        self.view = self.view.merge(newer, self.view.topics if names is None else names)
        now_s = time.monotonic()
        self._learned_at_s.update(dict.fromkeys(newer.topics, now_s))
        return self.view

    def known_topic(self, name: str) -> Topic | None:
        """Return the topic if its metadata is known, valid and not too old."""
        topic = self.view.topics.get(name)
        if topic is None or topic.error or not topic.partitions:
            return None
        return topic if time.monotonic() - self._learned_at_s[name] < self._metadata_max_age_s else None

    async def topic(
        self, name: str, *, allow_auto_create: bool = False, timeout_ms: float = UNKNOWN_TOPIC_TIMEOUT_MS
    ) -> Topic:
        """Return the topic, with a request if necessary; raises `ApiError` if it stays unknown."""
        if topic := self.known_topic(name):
            return topic

        async def look() -> Topic:
            view = await self.refresh([name], allow_auto_create=allow_auto_create)
            topic = view.topics.get(name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
            if topic is None or code or not topic.partitions:
                raise ApiError(code or ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name}")
            return topic

        return await self.retry(look, timeout_ms=timeout_ms)

    async def leader_id(self, topic: str, partition: int) -> int:
        """Return the leader of a partition; raises a retriable `ApiError` while there is none."""
        found = await self.topic(topic)
        if not 0 <= partition < len(found.partitions):
            message = f"topic {topic} has {len(found.partitions)} partitions, none with the number {partition}"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        leader_id = found.leader_id(partition)
        if leader_id == NO_LEADER:
            self.forget(topic)
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader")
        return leader_id

    def learn(
        self, hints: Hints, nodes: Iterable[ProduceResponseNode | FetchResponseNode], asked_ids: Mapping[str, UUID]
    ) -> set[TopicPartition]:
        """Apply the leaders that a broker names in an error (KIP-951); returns the partitions that this changed.

        `asked_ids` are the ids of the topics that the broker was asked about.
        """
        self.view, taken = take_hints(self.view, hints, nodes, asked_ids)
        return taken

    def forget(self, topic: str) -> None:
        """Request the metadata of a topic again before its next use, because it named the wrong broker."""
        self._learned_at_s[topic] = float("-inf")

    # --- requests

    async def connection(self, node_id: int, lane: Hashable = SHARED_LANE) -> Connection:
        """Return the connection to a broker in a lane, and open it if necessary."""
        node = self.view.nodes.get(node_id)
        if node is None:
            raise BrokerUnavailable(f"broker {node_id} is not in the cluster's metadata")
        return await self._open(node.address, lane)

    async def request(
        self, node_id: int, request: Message, reply_type: type[R], *, timeout_ms: float | None = None
    ) -> R:
        """Send a request to one broker."""
        return await (await self.connection(node_id)).request(request, reply_type, timeout_ms=timeout_ms)

    async def request_any(self, request: Message, reply_type: type[R], *, version_max: int | None = None) -> R:
        """Send a request to any broker: the known ones first, then the bootstrap addresses (KIP-899)."""
        known = [node.address for node in self.view.nodes.values()]
        chance.generator().shuffle(known)
        known.sort(key=lambda address: not self._is_open(address))
        errors: list[Exception] = []
        candidates: list[Address] = [*known, *self.bootstrap]
        for address in dict.fromkeys(candidates):
            try:
                connection = await self._open(address, SHARED_LANE)
                return await connection.request(request, reply_type, version_max=version_max)
            except (BrokerUnavailable, RequestTimeout, RemoteProtocolError) as error:
                errors.append(error)
        raise BrokerUnavailable("; ".join(dict.fromkeys(map(str, errors)))) from errors[0]

    async def controller(self) -> Connection:
        """Return the connection to the controller, or to any broker if the cluster names none."""
        if self.view.controller_id not in self.view.nodes:
            await self.refresh([])
        if self.view.controller_id in self.view.nodes:
            return await self.connection(self.view.controller_id)
        return await self.connection(min(self.view.nodes, default=-1))

    async def retry(self, action: Callable[[], Awaitable[T]], *, timeout_ms: float) -> T:
        """Run `action` until it succeeds, fails with an error that is not retriable, or the time is over."""
        deadline = Deadline(timeout_ms)
        failure_count = 0
        while True:
            try:
                return await action()
            except (BrokerUnavailable, RequestTimeout, ApiError) as error:
                failure_count += 1
                wait_s = self.backoff.wait_s(failure_count)
                if (isinstance(error, ApiError) and not error.code.retriable) or wait_s > deadline.left_s:
                    raise
            await asyncio.sleep(wait_s)

    def _is_open(self, address: Address) -> bool:
        task = self._connections.get((address, SHARED_LANE))
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return False
        return task.result().is_open

    async def _open(self, address: Address, lane: Hashable) -> Connection:
        """Return the open connection to an address; concurrent callers share one attempt to open it."""
        key = (address, lane)
        task = self._connections.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() or not task.result().is_open)):
            task = asyncio.get_running_loop().create_task(
                Connection.open(
                    address,
                    client_id=self._client_id,
                    request_timeout_ms=self.request_timeout_ms,
                    security=self._security,
                )
            )
            task.add_done_callback(ignore_exception)  # every caller may be cancelled before the attempt fails
            self._connections[key] = task
        # Shielded: one caller may give up while others wait for the same connection.
        return await asyncio.shield(task)
