"""ListOffsets: special offsets (earliest, latest, that of the newest timestamp) and offsets by time.

A search by time may read from the disk, so it runs in a worker thread.
"""

from collections import Counter
from enum import IntEnum

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.offset import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.known_producer import describe_producers
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource
from tailrace.server.handlers.fetch import READ_COMMITTED
from tailrace.storage.error import StorageError

FIRST_VERSION_WITH_LEADER_EPOCH = 4  # KIP-320
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5  # KIP-207
FIRST_VERSION_WITH_PRODUCERS = 6  # the first with tagged fields


class Name(IntEnum):
    """The special offset that a negative timestamp means."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3  # KIP-734
    EARLIEST_LOCAL = -4  # KIP-405
    LATEST_TIERED = -5  # KIP-1005
    EARLIEST_PENDING_UPLOAD = -6  # KIP-1023


_FIRST_VERSION: dict[int, int] = {
    Name.MAX_TIMESTAMP: 7,
    Name.EARLIEST_LOCAL: 8,
    Name.LATEST_TIERED: 9,
    Name.EARLIEST_PENDING_UPLOAD: 11,
}


def fail(ctx: RequestContext, request: ListOffsetsRequest, error: ApiError) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponseTopic(
                name=topic.name, partitions=[_refusal(asked, error.code) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


@api(ListOffsetsRequest, versions=(1, 11), fail=fail)
async def list_offsets(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer for each partition separately."""
    asked_times = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    response = ListOffsetsResponse()
    for topic in request.topics:
        reply = ListOffsetsResponseTopic(name=topic.name)
        response.topics.append(reply)
        for asked in {asked.partition_index: asked for asked in topic.partitions}.values():
            try:
                if asked_times[topic.name, asked.partition_index] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "the request names the partition twice")
                reply.partitions.append(await _look_up(ctx, request, topic.name, asked))
            except ApiError as error:
                reply.partitions.append(_refusal(asked, error.code))
            except StorageError:
                reply.partitions.append(_refusal(asked, ErrorCode.KAFKA_STORAGE_ERROR))
    return response


async def _look_up(
    ctx: RequestContext, request: ListOffsetsRequest, topic: str, asked: ListOffsetsRequestPartition
) -> ListOffsetsResponsePartition:
    if not ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, topic):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if ctx.version < _FIRST_VERSION.get(asked.timestamp, 1):
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, f"timestamp {asked.timestamp} needs a newer version of ListOffsets"
        )
    partition = ctx.broker.replicas.get(topic, asked.partition_index)
    partition.check_leader(asked.current_leader_epoch)
    readable = partition.last_stable_offset if request.isolation_level == READ_COMMITTED else partition.high_watermark
    if request.replica_id >= 0:
        readable = partition.log.log_end_offset  # a follower may read uncommitted records
    elif asked.timestamp in (Name.LATEST, Name.MAX_TIMESTAMP) and not partition.is_settled:
        # A new leader does not know the high watermark of its predecessor yet, and must not return less (KIP-207).
        is_known = ctx.version >= FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE)
    timestamp, offset, leader_epoch = await _find(partition, asked.timestamp, readable)
    reply = ListOffsetsResponsePartition(partition_index=asked.partition_index, timestamp=timestamp, offset=offset)
    if ctx.version >= FIRST_VERSION_WITH_LEADER_EPOCH:
        reply.leader_epoch = leader_epoch
    if asked.timestamp == Name.EARLIEST and _is_follower(ctx, request):
        known = partition.log.producers.known_before(offset)
        reply.producers = describe_producers(known, ctx.broker.clock.now_ms())
    return reply


def _is_follower(ctx: RequestContext, request: ListOffsetsRequest) -> bool:
    """Return whether a follower asks, which begins its log at the answer, and can be told its producers."""
    if request.replica_id < 0 or ctx.version < FIRST_VERSION_WITH_PRODUCERS:
        return False
    return ctx.is_allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME, is_probe=True)


async def _find(partition: Partition, timestamp: int, readable: int) -> tuple[int, int, int]:
    """Return the timestamp, offset and leader epoch for `timestamp`; all three are -1 if no record matches."""
    nothing = (-1, -1, -1)
    log = partition.log
    match timestamp:
        case Name.LATEST:
            return -1, readable, partition.leader_epoch
        case Name.EARLIEST | Name.EARLIEST_LOCAL:
            return -1, log.log_start_offset, _epoch_at(partition, log.log_start_offset)
        case Name.LATEST_TIERED | Name.EARLIEST_PENDING_UPLOAD:
            return nothing  # there is no tiered storage
        case Name.MAX_TIMESTAMP:
            found = await partition.find_by_time(None)
        case _ if timestamp < 0:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"the special timestamp {timestamp} is unknown")
        case _:
            found = await partition.find_by_time(timestamp)
    if found is None or found.offset >= readable:
        return nothing
    return found.timestamp, found.offset, _epoch_at(partition, found.offset)


def _epoch_at(partition: Partition, offset: int) -> int:
    """Return the leader epoch of the record at `offset`; at the log end offset, the current one."""
    epoch = partition.log.epochs.epoch_for(offset)
    return epoch if epoch >= 0 else partition.leader_epoch


def _refusal(asked: ListOffsetsRequestPartition, code: ErrorCode) -> ListOffsetsResponsePartition:
    return ListOffsetsResponsePartition(partition_index=asked.partition_index, error_code=code)
