"""Partitions moved to other brokers, leaders elected, and brokers that leave: what a client asks the controller for."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from runnel.client.topic_partition import TopicPartition
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.message import Message
from runnel.protocol.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersRequestTopic,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition on its way: all its replicas, and which of them come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReassignmentAdmin:
    """The part of the administration that is about where partitions are."""

    @abstractmethod
    async def _ask_controller(self, request: Message, reply_type: type[R], codes: Callable[[R], Iterable[int]]) -> R:
        """Ask the controller, and again when it has moved."""

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, keep_replication_factor: bool = False
    ) -> dict[TopicPartition, ApiError | None]:
        """Send partitions to other brokers; None calls one back."""
        topics: dict[str, AlterPartitionReassignmentsRequestTopic] = {}
        for (name, partition), replicas in targets.items():
            asked = topics.setdefault(name, AlterPartitionReassignmentsRequestTopic(name=name))
            asked.partitions.append(
                AlterPartitionReassignmentsRequestPartition(
                    partition_index=partition, replicas=None if replicas is None else list(replicas)
                )
            )
        request = AlterPartitionReassignmentsRequest(topics=list(topics.values()))
        if keep_replication_factor:
            request.allow_replication_factor_change = False
        reply = await self._ask_controller(
            request, AlterPartitionReassignmentsResponse, lambda reply: [reply.error_code]
        )
        _raise(reply.error_code, reply.error_message)
        return {
            TopicPartition(topic.name, told.partition_index): _error(told.error_code, told.error_message)
            for topic in reply.responses
            for told in topic.partitions
        }

    async def list_partition_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """All partitions that are on their way."""
        reply = await self._ask_controller(
            ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse, lambda reply: [reply.error_code]
        )
        _raise(reply.error_code, reply.error_message)
        return {
            TopicPartition(topic.name, told.partition_index): Reassignment(
                tuple(told.replicas), tuple(told.adding_replicas), tuple(told.removing_replicas)
            )
            for topic in reply.topics
            for told in topic.partitions
        }

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, unclean: bool = False
    ) -> dict[TopicPartition, ApiError | None]:
        """Have partitions led by the first of their replicas, or, unclean, by any where nobody is left.

        Without partitions this concerns all of them, and those that need no election are left out.
        """
        named: dict[str, ElectLeadersRequestTopic] = {}
        for name, partition in partitions or ():
            named.setdefault(name, ElectLeadersRequestTopic(topic=name)).partitions.append(partition)
        request = ElectLeadersRequest(
            election_type=int(unclean), topic_partitions=None if partitions is None else list(named.values())
        )
        reply = await self._ask_controller(request, ElectLeadersResponse, lambda reply: [reply.error_code])
        _raise(reply.error_code, None)
        return {
            TopicPartition(topic.topic, told.partition_id): _error(told.error_code, told.error_message)
            for topic in reply.replica_election_results
            for told in topic.partition_result
        }

    async def unregister_broker(self, broker_id: int) -> None:
        """Have the cluster forget a broker that was stopped for good; raises `ApiError`."""
        reply = await self._ask_controller(
            UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse, lambda reply: [reply.error_code]
        )
        _raise(reply.error_code, reply.error_message)


def _error(code: int, message: str | None) -> ApiError | None:
    return ApiError(ErrorCode(code), message) if code else None


def _raise(code: int, message: str | None) -> None:
    if error := _error(code, message):
        raise error
