"""One batch of a produce request in each phase: parsed, validated, appended, acknowledged.

A phase takes the batches of the phase before and returns those that pass. A batch that does not
pass ends there, with its error in its reply; so no phase sees a batch that is half done.
"""

from typing import NamedTuple

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.produce import ProduceResponsePartition, ProduceResponseRecordError
from tailrace.records.batch import BatchHeader
from tailrace.records.validation import InvalidRecordsError, ValidBatch
from tailrace.runtime.acknowledgement import PendingAcknowledgement
from tailrace.runtime.append import Appended
from tailrace.runtime.partition import Partition
from tailrace.runtime.transaction.guard import TransactionGuard
from tailrace.server.context import RequestContext


class ParsedBatch(NamedTuple):
    """A batch for a partition of this broker whose header and checksum are right."""

    reply: ProduceResponsePartition
    partition: Partition
    buffer: memoryview
    header: BatchHeader


class ValidatedBatch(NamedTuple):
    """A batch whose records may be stored."""

    reply: ProduceResponsePartition
    partition: Partition
    buffer: memoryview
    valid: ValidBatch
    guard: TransactionGuard | None = None
    """Set if the transaction coordinator had to be asked about the batch."""


class AppendedBatch(NamedTuple):
    """A batch in the log of the leader, and what its acknowledgement waits for."""

    reply: ProduceResponsePartition
    appended: Appended
    log_start_offset: int
    acknowledgement: ErrorCode | PendingAcknowledgement


class AcknowledgedBatch(NamedTuple):
    """A batch that the client may take for stored."""

    reply: ProduceResponsePartition
    appended: Appended
    log_start_offset: int

    def fill_reply(self) -> None:
        """Tell the client where the batch is."""
        self.reply.base_offset = self.appended.base_offset
        self.reply.log_append_time_ms = self.appended.log_append_time
        self.reply.log_start_offset = self.log_start_offset


def refuse(reply: ProduceResponsePartition, error: ApiError) -> None:
    """Tell the client why a batch is not stored, or not known to be stored."""
    reply.error_code = error.code
    reply.error_message = error.message
    if isinstance(error, InvalidRecordsError):
        reply.record_errors = [
            ProduceResponseRecordError(batch_index=fault.record_index, batch_index_error_message=fault.message)
            for fault in error.faults
        ]


def reject(ctx: RequestContext, reply: ProduceResponsePartition, partition: Partition, error: ApiError) -> None:
    """Refuse a batch because of what is in it: name the partition to the client, and write a line to the log."""
    refuse(reply, error)
    reply.error_message = f"{partition.name}: {error.message or error.code.name}"
    ctx.rejections.add(ctx.broker.clock.now_ms(), ctx.connection.peer, partition.name, error)
