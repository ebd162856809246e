"""The producers that a leader knows from deleted records, as it tells them a follower that begins after these."""

from collections.abc import Iterable

from tailrace.protocol.messages.offset import ListOffsetsResponseBatch, ListOffsetsResponseProducer
from tailrace.storage.producer_state import ProducerBatch, ProducerEntry


def describe_producers(entries: Iterable[ProducerEntry], now_ms: int) -> list[ListOffsetsResponseProducer]:
    """Return the producers as a message; a follower's clock may show another time than `now_ms`."""
    return [
        ListOffsetsResponseProducer(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_first_offset=entry.current_txn_first_offset,
            last_timestamp=entry.last_timestamp,
            idle_ms=now_ms - entry.active_ms,
            batches=[ListOffsetsResponseBatch(**batch._asdict()) for batch in entry.batches],
        )
        for entry in entries
    ]


def read_producers(told: Iterable[ListOffsetsResponseProducer], now_ms: int) -> list[ProducerEntry]:
    """Return the entries in a leader's message."""
    return [_read_producer(producer, now_ms) for producer in told]


def _read_producer(told: ListOffsetsResponseProducer, now_ms: int) -> ProducerEntry:
    entry = ProducerEntry(told.producer_id)
    entry.producer_epoch, entry.coordinator_epoch = told.producer_epoch, told.coordinator_epoch
    entry.current_txn_first_offset = told.current_txn_first_offset
    entry.last_timestamp, entry.active_ms = told.last_timestamp, now_ms - told.idle_ms
    for batch in told.batches:
        sequences = (batch.base_sequence, batch.last_sequence)
        entry.batches.append(ProducerBatch(*sequences, batch.base_offset, batch.last_offset, batch.timestamp))
    return entry
