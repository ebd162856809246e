"""Under which producer id and epoch batches leave, and what becomes of both when brokers refuse them.

Whoever sends asks a source of identities. This one is for producers without transactions: it asks any
broker for an id, and takes the next epoch by itself when numbers have to begin anew (KIP-360). That
of a producer with transactions is `transaction.Transactions`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from runnel.client.batch import Batch
from runnel.client.cluster import Cluster
from runnel.client.error import BrokerUnavailable, ClientError, RequestTimeout
from runnel.client.outbox import Outbox
from runnel.client.outbox_queue import Drained
from runnel.client.sequence import EPOCH_MAX, Identity
from runnel.client.topic_partition import TopicPartition
from runnel.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from runnel.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse

PASSING = (BrokerUnavailable, RequestTimeout)
_NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1
_STALE_SEQUENCE = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
_STALE_IDENTITY = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING)

Start = Callable[[Coroutine[Any, Any, None]], Any]


class IdentitySource(Protocol):
    """What a sender wants to know of the producer that it sends for. All of it is called on the loop."""

    @property
    def identity(self) -> Identity | None:
        """Under which id batches leave; None while there is none, and then nothing does."""

    @property
    def transactional_id(self) -> str | None:
        """The name of the producer's transactions."""

    @property
    def produce_version_max(self) -> int | None:
        """The highest version to write in; None for the highest that both sides know."""

    def bind(self, start: Start, wake: Callable[[], None]) -> None:
        """How to run something in the background, and how to have the outbox looked into."""

    def admits(self, target: TopicPartition) -> bool:
        """Whether a partition may be written to now."""

    def mend(self, drained: Drained) -> None:
        """Look after what kept batches from leaving."""

    def may_pass(self, batch: Batch, error: Exception) -> bool:
        """Whether a batch that was not written shall be sent again."""

    def on_given_up(self, batch: Batch, error: Exception) -> None:
        """A batch will not be written, or not that anybody knew."""


class OwnIdentity:
    """The identity of a producer without transactions, or none where the outbox is not idempotent."""

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
        """How to run something in the background, and how to have the outbox looked into."""
        self._start, self._wake = start, wake

    def admits(self, target: TopicPartition) -> bool:  # noqa: ARG002
        """Every partition may be written to."""
        return True

    def mend(self, drained: Drained) -> None:
        """Begin numbers anew where that is due, and ask for an id where there is none."""
        if not self._outbox.options.is_idempotent or self._is_asked:
            return
        if self.identity is not None and drained.restarting:
            self.identity = next_epoch(self.identity)
            if self.identity is not None:
                for queue in drained.restarting:
                    self._outbox.restart(queue, self.identity)
                self._wake()
        if self.identity is None and self._outbox.held_bytes and self._start is not None:
            self._is_asked = True
            self._start(self._ask())

    def may_pass(self, batch: Batch, error: Exception) -> bool:
        """Whether a batch shall be sent again, if need be under another epoch or id."""
        if not isinstance(error, ApiError):
            return isinstance(error, PASSING)
        if batch.has_sequence and error.code in _STALE_SEQUENCE:
            self._outbox.queue_of(batch).sequence.refuse(batch)
            return True
        if batch.has_sequence and error.code in _STALE_IDENTITY:
            self._outbox.queue_of(batch).sequence.must_restart = True
            self.identity = None
            return True
        return error.code.retriable

    def on_given_up(self, batch: Batch, error: Exception) -> None:
        """The futures tell; others go on."""

    async def _ask(self) -> None:
        failure_count = 0
        try:
            while self._outbox.held_bytes:
                try:
                    self.identity = await ask_identity(self._cluster)
                    return
                except (ClientError, ApiError, RemoteProtocolError) as error:
                    failure_count += 1
                    if isinstance(error, ApiError) and not error.code.retriable:
                        fail_everything(self._outbox, error)
                        return
                await asyncio.sleep(self._cluster.backoff.wait_s(failure_count))
        finally:
            self._is_asked = False
            self._wake()


def fail_everything(outbox: Outbox, error: Exception) -> None:
    """Take nothing more, and have all futures tell why."""
    for batch in outbox.close(error):
        batch.fail(error)
    outbox.tell_progress()


async def ask_identity(cluster: Cluster) -> Identity:
    """A producer id from any broker; raises `ApiError`."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS)
    reply = await cluster.request_any(request, InitProducerIdResponse)
    if reply.error_code:
        raise ApiError(ErrorCode(reply.error_code), "asking for a producer id (enable.idempotence)")
    return Identity(reply.producer_id, reply.producer_epoch)


def next_epoch(identity: Identity) -> Identity | None:
    """The identity after this one, which needs nobody's leave (KIP-360); None when a new id is needed."""
    if identity.producer_epoch >= EPOCH_MAX:
        return None
    return identity._replace(producer_epoch=identity.producer_epoch + 1)
