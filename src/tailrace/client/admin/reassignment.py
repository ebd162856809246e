"""The admin calls that go to the controller: reassigning partitions, electing leaders, unregistering brokers."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.reassignment import (
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
    """A partition that is being reassigned: its replicas, and those that are added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReassignmentAdmin:
    """The admin calls for the placement of partitions."""

    @abstractmethod
    async def _ask_controller(self, request: Message, reply_type: type[R], codes: Callable[[R], Iterable[int]]) -> R:
        """Send a request to the controller, and again if another broker has become it."""

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, keep_replication_factor: bool = False
    ) -> dict[TopicPartition, ApiError | None]:
        """Reassign partitions to other brokers; None cancels a reassignment."""
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
        """Return all partitions that are being reassigned."""
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
        """Elect the preferred leaders of partitions, or with `unclean` any replica if no in-sync replica is left.

        Without an argument all partitions are elected, and those that need no election are left out.
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
        """Remove a broker that was stopped for good from the cluster; raises `ApiError`."""
        reply = await self._ask_controller(
            UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse, lambda reply: [reply.error_code]
        )
        _raise(reply.error_code, reply.error_message)


def _error(code: int, message: str | None) -> ApiError | None:
    return ApiError(ErrorCode(code), message) if code else None


def _raise(code: int, message: str | None) -> None:
    if error := _error(code, message):
        raise error
