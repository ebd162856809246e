"""Batches of another cluster that a mirror appends at the offsets that they have there.

A topic with `tailrace.mirror.claim` takes records from the mirror that knows the claim, and from no other client. Such
batches are not checked like a producer's: another leader has accepted them, and they are the same bytes. They are
checked like a replica's instead, and a client that may send them can write anything into the log. So the client needs
the right to alter the topic, too.
"""

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.produce import ProduceRequestPartition, ProduceResponsePartition
from tailrace.records.batch import NO_TIMESTAMP
from tailrace.runtime.acknowledgement import acknowledge
from tailrace.runtime.append import Appended
from tailrace.runtime.partition import Partition
from tailrace.server.context import Operation, RequestContext, Resource
from tailrace.server.produce.batch import AppendedBatch, refuse, reject


def refuse_producer(reply: ProduceResponsePartition, partition: Partition) -> None:
    """Refuse the batch of a producer, because only a mirror writes the topic."""
    message = f"{partition.topic} is a copy that a mirror writes; `tailrace mirror promote` makes it an ordinary topic"
    refuse(reply, ApiError(ErrorCode.POLICY_VIOLATION, message))


def append_mirrored(
    ctx: RequestContext,
    claim: str,
    reply: ProduceResponsePartition,
    partition: Partition,
    data: ProduceRequestPartition,
) -> AppendedBatch | None:
    """Append the batches for one partition; None if they are refused."""
    try:
        _check_claim(ctx, claim, partition)
        records = data.records
        if not isinstance(records, memoryview):
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, "there are no batches")
        end_offset = partition.append_mirrored(records, data.mirror_from_offset)
    except ApiError as error:
        if error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD):
            reject(ctx, reply, partition, error)
        else:
            refuse(reply, error)
        return None
    place = Appended(data.mirror_from_offset, NO_TIMESTAMP)
    return AppendedBatch(reply, place, partition.log.log_start_offset, acknowledge(partition, end_offset))


def _check_claim(ctx: RequestContext, claim: str, partition: Partition) -> None:
    if not ctx.is_allowed(Operation.ALTER, Resource.TOPIC, partition.topic):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    own = partition.config.tailrace_mirror_claim
    if not own:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"{partition.topic} has no tailrace.mirror.claim")
    if claim != own:
        raise ApiError(ErrorCode.PRODUCER_FENCED, f"another mirror has claimed {partition.topic}")
