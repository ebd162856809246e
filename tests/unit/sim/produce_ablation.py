"""Safeguards of idempotent producers, each taken away by a patch, so that the simulator can show that it is needed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from tailrace.client.produce import sender, sequence
from tailrace.client.produce.batch import Batch
from tailrace.client.produce.identity import OwnIdentity
from tailrace.client.produce.queue import Queue
from tailrace.client.produce.sender import Sender
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.primitive import Buffer
from tailrace.records.batch import BatchHeader
from tailrace.runtime.partition import Partition
from tailrace.storage.producer_state import ProducerState


@contextmanager
def batches_overtake() -> Iterator[None]:
    """A batch leaves although an earlier one of its partition waits to be sent again, or was lost with a connection.

    Three safeguards are taken away, because each of the others alone keeps an overtaken batch from being written
    twice: what a later acknowledgement tells of an earlier batch, and that no doubtful batch gets another number.
    """
    with (
        patch.object(Queue, "must_wait", lambda *_: False),
        patch.object(sequence, "REMEMBERED_BATCH_COUNT", 1_000),
        patch.object(sequence.PartitionSequence, "is_written", lambda *_: False),
        doubtful_batches_are_renumbered(),
    ):
        yield


@contextmanager
def numbers_are_used_again() -> Iterator[None]:
    """A number is given to other records after a refusal, although an attempt with it may have been written."""
    with leader_validates_first(), patch.object(Batch, "may_be_written", property(lambda _: False)):
        yield


@contextmanager
def doubtful_batches_are_split() -> Iterator[None]:
    """A batch that is refused as too large is split, although an earlier attempt may have been written.

    The parts get other numbers, too: that they get none alone keeps them from being written twice.
    """
    settle = Sender._settle_error

    def settle_error(self: Sender, batch: Batch, error: Exception, **options: Any) -> bool:
        is_too_large = isinstance(error, ApiError) and error.code is ErrorCode.MESSAGE_TOO_LARGE
        if not is_too_large or batch.record_count == 1:
            return settle(self, batch, error, **options)
        parts = batch.split()
        for part in parts:  # else their numbers would be used again
            part.unanswered_count = batch.unanswered_count
        self._outbox.replace(batch, parts)
        return True

    with (
        leader_validates_first(),
        doubtful_batches_are_renumbered(),
        patch.object(Sender, "_settle_error", settle_error),
    ):
        yield


@contextmanager
def doubt_is_not_told() -> Iterator[None]:
    """The error of a refused batch does not say that an earlier attempt may have been written."""
    with leader_validates_first(), patch.object(sender, "MAY_BE_WRITTEN", "the records are not in the log"):
        yield


@contextmanager
def leader_validates_first() -> Iterator[None]:
    """A leader validates a batch before it looks for a duplicate, as Kafka does. Alone, this loses nothing."""
    with patch.object(Partition, "find_appended", lambda *_: None):
        yield


@contextmanager
def no_duplicates_are_known() -> Iterator[None]:
    """A leader recognises no repeated batch, and takes any number."""
    with patch.object(ProducerState, "check", lambda *_, **__: None):
        yield


@contextmanager
def doubtful_batches_are_renumbered() -> Iterator[None]:
    """A batch that may be written is sent again under another number when the numbers start again."""
    with (
        patch.object(OwnIdentity, "_settle_doubtful", lambda *_: None),
        patch.object(sequence, "invariant", lambda *_: None),
    ):
        yield


@contextmanager
def producers_expire_by_timestamps() -> Iterator[None]:
    """A broker forgets a producer a day after the timestamps of its records, whenever it wrote them, as Kafka does."""
    replay = ProducerState.replay

    def replay_undated(state: ProducerState, header: BatchHeader, base_offset: int, batch: Buffer, *_: int) -> Any:
        return replay(state, header, base_offset, batch)

    with patch.object(ProducerState, "replay", replay_undated):
        yield


ABLATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "batches overtake": batches_overtake,
    "numbers are used again": numbers_are_used_again,
    "doubtful batches are split": doubtful_batches_are_split,
    "doubt is not told": doubt_is_not_told,
    "doubtful batches are renumbered": doubtful_batches_are_renumbered,
    "no duplicates are known": no_duplicates_are_known,
    "producers expire by timestamps": producers_expire_by_timestamps,
}
