"""The producer id and epoch of batches, and what happens when brokers reject them.

The sender gets them from an identity source. The one here is for producers without transactions: it requests
an id from any broker, and raises the epoch by itself when sequence numbers must start again (KIP-360). That
of a transactional producer is `transaction.Transactions`.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from tailrace.base.sentinel import NO_OFFSET
from tailrace.client.cluster import Cluster
from tailrace.client.error import AuthenticationError, BrokerUnavailable, ClientError, RequestTimeout
from tailrace.client.produce.batch import Batch
from tailrace.client.produce.delivery import Outcome
from tailrace.client.produce.outbox import Outbox
from tailrace.client.produce.queue import Drained, Queue
from tailrace.client.produce.request import MAY_BE_WRITTEN, STALE_SEQUENCE
from tailrace.client.produce.sequence import EPOCH_MAX, Identity
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse

_log = logging.getLogger(__name__)

PASSING = (BrokerUnavailable, RequestTimeout)
_NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1
_STALE_IDENTITY = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING)

Start = Callable[[Coroutine[Any, Any, None]], Any]


class IdentitySource(Protocol):
    """The source of a producer's identity. The sender calls it on the event loop."""

    @property
    def identity(self) -> Identity | None:
        """The identity of new batches; None while there is none, and then no batch is sent."""

    @property
    def transactional_id(self) -> str | None:
        """The transactional id of the producer."""

    @property
    def produce_version_max(self) -> int | None:
        """The highest version of Produce; None for the highest that both sides support."""

    def bind(self, start: Start, wake: Callable[[], None]) -> None:
        """Take the functions that start a background task and wake the sender."""

    def admits(self, target: TopicPartition) -> bool:
        """Return whether a partition may be written to now."""

    def mend(self, drained: Drained) -> None:
        """Repair what keeps batches from being sent."""

    def may_pass(self, batch: Batch, error: Exception) -> bool:
        """Return whether a failed batch is sent again."""

    def on_given_up(self, batch: Batch, error: Exception) -> None:
        """Handle a batch that is not sent again."""


class OwnIdentity:
    """The identity of a producer without transactions; none if the outbox is not idempotent."""

    transactional_id: str | None = None
    produce_version_max: int | None = None

    def __init__(self, cluster: Cluster, outbox: Outbox) -> None:
        self.identity: Identity | None = None
        self._cluster = cluster
        self._outbox = outbox
        self._is_asked = False
        self._start: Start | None = None
        self._wake: Callable[[], None] = lambda: None

    def bind(self, start: Start, wake: Callable[[], None]) -> None:
        """Take the functions that start a background task and wake the sender."""
        self._start, self._wake = start, wake

    def admits(self, target: TopicPartition) -> bool:
        """Return true for every partition."""
        return True

    def mend(self, drained: Drained) -> None:
        """Restart sequence numbers where necessary, and request an id if there is none."""
        if not self._outbox.options.is_idempotent or self._is_asked:
            return
        if self.identity is not None and drained.restarting:
            self.identity = next_epoch(self.identity)
            if self.identity is not None:
                for queue in drained.restarting:
                    self._settle_doubtful(queue)
                    self._outbox.restart(queue, self.identity)
                self._outbox.tell_progress()
                self._wake()
        if self.identity is None and self._outbox.held_bytes and self._start is not None:
            self._is_asked = True
            self._start(self._ask())

    def _settle_doubtful(self, queue: Queue) -> None:
        """Settle the batches that may be written, because they cannot be sent again under other numbers."""
        for batch in self._outbox.drop_doubtful(queue):
            if self._outbox.is_written(batch):
                batch.succeed(Outcome(NO_OFFSET))
                continue
            text = f"{queue.target}: the broker rejected the sequence number; {MAY_BE_WRITTEN}"
            error = ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)
            _log.warning("%d records for %s failed: %s", batch.record_count, queue.target, error)
            batch.fail(error)

    def may_pass(self, batch: Batch, error: Exception) -> bool:
        """Return whether a batch is sent again, if necessary with another epoch or id."""
        if not isinstance(error, ApiError):
            return isinstance(error, PASSING)
        if batch.has_sequence and error.code in STALE_SEQUENCE:
            self._outbox.queue_of(batch).sequence.refuse(batch)
            return True
        if batch.has_sequence and error.code in _STALE_IDENTITY:
            self._outbox.queue_of(batch).sequence.must_restart = True
            self.identity = None
            return True
        return error.code.retriable

    def on_given_up(self, batch: Batch, error: Exception) -> None:
        """Do nothing: the futures of the batch have the error."""

    async def _ask(self) -> None:
        failure_count = 0
        try:
            while self._outbox.held_bytes:
                try:
                    self.identity = await ask_identity(self._cluster)
                    return
                except (ClientError, ApiError, RemoteProtocolError) as error:
                    failure_count += 1
                    if isinstance(error, AuthenticationError) or (
                        isinstance(error, ApiError) and not error.code.retriable
                    ):
                        fail_everything(self._outbox, error)
                        return
                await asyncio.sleep(self._cluster.backoff.wait_s(failure_count))
        finally:
            self._is_asked = False
            self._wake()


def fail_everything(outbox: Outbox, error: Exception) -> None:
    """Reject new records, and fail all futures."""
    for batch in outbox.close(error):
        batch.fail(error)
    outbox.tell_progress()


async def ask_identity(cluster: Cluster) -> Identity:
    """Request a producer id from any broker; raises `ApiError`."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS)
    reply = await cluster.request_any(request, InitProducerIdResponse)
    if reply.error_code:
        raise ApiError(ErrorCode(reply.error_code), "requesting a producer id (enable.idempotence)")
    return Identity(reply.producer_id, reply.producer_epoch)


def next_epoch(identity: Identity) -> Identity | None:
    """Return the identity with the next epoch (KIP-360); None if a new id is needed."""
    if identity.producer_epoch >= EPOCH_MAX:
        return None
    return identity._replace(producer_epoch=identity.producer_epoch + 1)
