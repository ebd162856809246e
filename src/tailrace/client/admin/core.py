"""The admin calls for topics, configs and clusters, and the class with all admin calls.

If a call names several things, each has its own outcome: a value, or the `ApiError` of the broker's answer.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeVar

from tailrace.client.admin.acl import AclAdmin
from tailrace.client.admin.group import GroupAdmin
from tailrace.client.admin.quota import QuotaAdmin
from tailrace.client.admin.reassignment import ReassignmentAdmin
from tailrace.client.admin.record import RecordAdmin
from tailrace.client.admin.scram import ScramAdmin
from tailrace.client.admin.token import TokenAdmin
from tailrace.client.admin.transaction import TransactionAdmin
from tailrace.client.cluster import Cluster
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.metadata import ClusterView, Topic
from tailrace.client.offset import OffsetAt, list_offsets
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.config import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tailrace.protocol.messages.topic import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
)

R = TypeVar("R", bound=Message)

BROKER_DEFAULT = -1
_SET = 0
_DELETE = 1
_DELETE_BY_ID_VERSION = 6  # the first version in which DeleteTopics lists structs instead of names


class ResourceType(IntEnum):
    """Kinds of resources that have configs, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigSource(IntEnum):
    """Sources of a config's value, with Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 means the broker's default."""

    name: str
    partition_count: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created."""

    name: str
    topic_id: uuid.UUID
    partition_count: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A place that sets a config, with the name that the config has there; the value of a secret is None."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class Config:
    """A config and the source of its value; the value of a secret is None.

    The synonyms are the places that set it, the one in effect first, if they were requested.
    """

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT


class Admin(AclAdmin, GroupAdmin, QuotaAdmin, ReassignmentAdmin, RecordAdmin, ScramAdmin, TokenAdmin, TransactionAdmin):
    """The admin client on a cluster of the caller."""

    def __init__(self, cluster: Cluster, timeout_ms: int = 30_000) -> None:
        self._cluster = cluster
        self._timeout_ms = timeout_ms

    async def list_topics(self, *, include_internal: bool = False) -> list[Topic]:
        """Return all topics in the order of their names."""
        view = await self._cluster.refresh(None)
        topics = sorted(view.topics.values(), key=lambda topic: topic.name)
        return [topic for topic in topics if include_internal or not topic.is_internal]

    async def describe_topics(self, names: Iterable[str]) -> dict[str, Topic | ApiError]:
        """Return topics with their partitions."""
        wanted = list(names)
        view = await self._cluster.refresh(wanted)
        return {name: _sound(view.topics.get(name), name) for name in wanted}

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | ApiError]:
        """Create topics, or only validate the request."""
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequestTopic(
                    name=topic.name,
                    num_partitions=topic.partition_count,
                    replication_factor=topic.replication_factor,
                    configs=[
                        CreateTopicsRequestConfig(name=name, value=value) for name, value in topic.configs.items()
                    ],
                )
                for topic in topics
            ],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )
        reply = await self._ask_controller(
            request, CreateTopicsResponse, lambda reply: (topic.error_code for topic in reply.topics)
        )
        return {
            topic.name: _error(topic.error_code, topic.error_message)
            or CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor)
            for topic in reply.topics
        }

    async def delete_topics(self, names: Sequence[str]) -> dict[str, ApiError | None]:
        """Delete topics and all their records."""

        async def delete() -> DeleteTopicsResponse:
            connection = await self._cluster.controller()
            request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=self._timeout_ms)
            if connection.version(DeleteTopicsRequest) >= _DELETE_BY_ID_VERSION:
                request.topics = [DeleteTopicsRequestTopic(name=name) for name in names]
            reply = await connection.request(request, DeleteTopicsResponse)
            await self._check_controller(topic.error_code for topic in reply.responses)
            return reply

        reply = await self._cluster.retry(delete, timeout_ms=self._timeout_ms)
        return {
            topic.name or "": _error(topic.error_code, f"topic {topic.name}: {topic.error_message or 'not deleted'}")
            for topic in reply.responses
        }

    async def create_partitions(self, counts: Mapping[str, int]) -> dict[str, ApiError | None]:
        """Add partitions to topics; the counts are totals, not numbers of new partitions."""
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsRequestTopic(name=name, count=count, assignments=None) for name, count in counts.items()
            ],
            timeout_ms=self._timeout_ms,
        )
        reply = await self._ask_controller(
            request, CreatePartitionsResponse, lambda reply: (topic.error_code for topic in reply.results)
        )
        return {topic.name: _error(topic.error_code, topic.error_message) for topic in reply.results}

    async def describe_configs(
        self, resource_type: ResourceType, name: str, *, include_synonyms: bool = False
    ) -> list[Config]:
        """Return the configs of a topic, a broker or a group; raises `ApiError`.

        The broker with an empty name stands for the dynamic configs of all brokers.
        """
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequestResource(resource_type=resource_type, resource_name=name, configuration_keys=None)
            ],
            include_synonyms=include_synonyms,
        )
        reply = await self._ask_for_resource(resource_type, name, request, DescribeConfigsResponse)
        result = reply.results[0]
        if error := _error(result.error_code, result.error_message):
            raise error
        return [_config(config) for config in sorted(result.configs, key=lambda config: config.name)]

    async def alter_configs(self, resource_type: ResourceType, name: str, changes: Mapping[str, str | None]) -> None:
        """Set configs, or remove them with None, which restores the default. Raises `ApiError`."""
        configs = [
            IncrementalAlterConfigsRequestConfig(
                name=config, config_operation=_DELETE if value is None else _SET, value=value
            )
            for config, value in changes.items()
        ]
        request = IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsRequestResource(resource_type=resource_type, resource_name=name, configs=configs)
            ]
        )
        reply = await self._ask_for_resource(resource_type, name, request, IncrementalAlterConfigsResponse)
        if error := _error(reply.responses[0].error_code, reply.responses[0].error_message):
            raise error

    async def list_config_resources(self, resource_type: ResourceType) -> list[str]:
        """Return the names of all topics, brokers, or groups with own configs (KIP-1142); raises `ApiError`."""
        request = ListConfigResourcesRequest(resource_types=[resource_type])
        reply = await self._cluster.request_any(request, ListConfigResourcesResponse)
        if error := _error(reply.error_code, None):
            raise error
        return sorted(found.resource_name for found in reply.config_resources)

    async def describe_cluster(self) -> ClusterView:
        """Return the brokers, the controller and the cluster id, without topics."""
        return replace(await self._cluster.refresh([]), topics={})

    async def list_offsets(
        self, topic: str, timestamps: Mapping[int, int], isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[int, OffsetAt]:
        """Return the first offset at or after a time in each partition; EARLIEST and the like count as times."""
        return await list_offsets(self._cluster, topic, timestamps, isolation)

    # --- asking the right broker

    async def _ask_for_resource(
        self, resource_type: ResourceType, name: str, request: Message, reply_type: type[R]
    ) -> R:
        """Send a request about configs: to the broker itself for its own, to any broker for those of a topic."""
        if resource_type is ResourceType.BROKER and name:
            return await self._cluster.request(int(name), request, reply_type)
        return await self._cluster.request_any(request, reply_type)

    async def _ask_controller(self, request: Message, reply_type: type[R], codes: Callable[[R], Iterable[int]]) -> R:
        async def ask() -> R:
            reply = await (await self._cluster.controller()).request(request, reply_type)
            await self._check_controller(codes(reply))
            return reply

        return await self._cluster.retry(ask, timeout_ms=self._timeout_ms)

    async def _check_controller(self, codes: Iterable[int]) -> None:
        """Raise a retriable error if the broker is no longer the controller."""
        if ErrorCode.NOT_CONTROLLER in codes:
            await self._cluster.refresh([])
            raise ApiError(ErrorCode.NOT_CONTROLLER, "another broker has become the controller")


def _sound(topic: Topic | None, name: str) -> Topic | ApiError:
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}")
    return ApiError(topic.error, f"topic {name}") if topic.error else topic


def _config(told: DescribeConfigsResponseConfig) -> Config:
    synonyms = tuple(ConfigSynonym(synonym.name, synonym.value, synonym.source) for synonym in told.synonyms)
    return Config(told.name, told.value, told.config_source, told.read_only, told.is_sensitive, synonyms)


def _error(code: int, message: str | None) -> ApiError | None:
    return ApiError(ErrorCode(code), message) if code else None
