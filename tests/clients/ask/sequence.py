"""InitProducerId and the sequence numbers of idempotent producers."""

from __future__ import annotations

from typing import Any

from tests.clients.ask.asker import Asker, question
from tests.clients.raw import batch
from tests.eventual import eventually

LOADING, NOT_AVAILABLE = 14, 15


def _asked(asker: Asker, version: int = 1, **fields: Any) -> Any:
    """InitProducerId, again while the broker is still loading its producer ids (14)."""
    fields = {"transactional_id": None, "transaction_timeout_ms": 60_000, **fields}
    return eventually(
        lambda: asker.ask("InitProducerId", version, **fields),
        lambda answer: isinstance(answer, str) or answer["error_code"] != LOADING,
    )


def _init(asker: Asker, **fields: Any) -> Any:
    answer = _asked(asker, **fields)
    if isinstance(answer, str):
        return answer
    return {
        "error_code": answer["error_code"],
        "has_producer_id": answer["producer_id"] >= 0,
        "producer_epoch": answer["producer_epoch"],
    }


def _producer(asker: Asker) -> int:
    producer_id: int = _asked(asker)["producer_id"]
    return producer_id


@question
def init_good(asker: Asker) -> Any:
    """InitProducerId v1 without a transactional id."""
    return _init(asker)


@question
def init_empty_transactional_id(asker: Asker) -> Any:
    """InitProducerId v1 with an empty transactional id."""
    return _init(asker, transactional_id="")


@question
def init_timeout_zero_without_transaction(asker: Asker) -> Any:
    """InitProducerId v1 with a timeout of 0 and no transactional id."""
    return _init(asker, transaction_timeout_ms=0)


@question
def init_with_producer_id_only(asker: Asker) -> Any:
    """InitProducerId v3 with a producer id and no epoch."""
    return _init(asker, version=3, producer_id=5, producer_epoch=-1)


@question
def init_with_epoch_only(asker: Asker) -> Any:
    """InitProducerId v3 with an epoch and no producer id."""
    return _init(asker, version=3, producer_id=-1, producer_epoch=5)


@question
def init_with_both(asker: Asker) -> Any:
    """InitProducerId v3 with a producer id and an epoch, no transactional id."""
    return _init(asker, version=3, producer_id=5, producer_epoch=5)


@question
def producer_ids_are_consecutive(asker: Asker) -> Any:
    """Are the ids of two calls consecutive?"""
    return _producer(asker) + 1 == _producer(asker)


def _send(asker: Asker, topic: str, producer_id: int, epoch: int, sequence: int, count: int = 1) -> list[int]:
    records = batch([b"v"] * count, producer=(producer_id, epoch, sequence))
    answer = asker.produce(topic, records)
    return [answer["error_code"], answer["base_offset"]]


@question
def in_order(asker: Asker) -> Any:
    """Sequences 0, 1 and 2, as [error, base offset]."""
    topic, producer_id = asker.topic(), _producer(asker)
    return [_send(asker, topic, producer_id, 0, sequence) for sequence in range(3)]


@question
def duplicates(asker: Asker) -> Any:
    """Ten batches, then batch 9 again, batch 5 (the fifth from the end), batch 4 (the sixth) and batch 0."""
    topic, producer_id = asker.topic(), _producer(asker)
    for sequence in range(10):
        _send(asker, topic, producer_id, 0, sequence)
    return [_send(asker, topic, producer_id, 0, sequence) for sequence in (9, 5, 4, 0)]


@question
def duplicate_of_part(asker: Asker) -> Any:
    """A batch with sequences 0 to 2, then one with 1 to 2, then one with 0 to 1."""
    topic, producer_id = asker.topic(), _producer(asker)
    first = _send(asker, topic, producer_id, 0, 0, 3)
    return [first, _send(asker, topic, producer_id, 0, 1, 2), _send(asker, topic, producer_id, 0, 0, 2)]


@question
def gap(asker: Asker) -> Any:
    """Sequence 0, then 2."""
    topic, producer_id = asker.topic(), _producer(asker)
    return [_send(asker, topic, producer_id, 0, 0), _send(asker, topic, producer_id, 0, 2)]


@question
def first_sequence_not_zero(asker: Asker) -> Any:
    """The first batch of a producer that the partition does not know has sequence 7; then 8, then 10."""
    topic, producer_id = asker.topic(), _producer(asker)
    return [_send(asker, topic, producer_id, 0, sequence) for sequence in (7, 8, 10)]


@question
def never_initialised(asker: Asker) -> Any:
    """A producer id that the broker never gave out."""
    return _send(asker, asker.topic(), 987_654_321, 0, 0)


@question
def epoch_rises(asker: Asker) -> Any:
    """Epoch 0 sequence 0, epoch 1 sequence 5, epoch 1 sequence 0, epoch 0 sequence 1."""
    topic, producer_id = asker.topic(), _producer(asker)
    return [_send(asker, topic, producer_id, *step) for step in ((0, 0), (1, 5), (1, 0), (0, 1))]


@question
def sequence_wraps(asker: Asker) -> Any:
    """Sequence 2147483646 for two records, then 0, then 1."""
    topic, producer_id = asker.topic(), _producer(asker)
    first = _send(asker, topic, producer_id, 0, 2_147_483_646, 2)
    return [first, _send(asker, topic, producer_id, 0, 0), _send(asker, topic, producer_id, 0, 1)]


@question
def sequence_wraps_inside(asker: Asker) -> Any:
    """Sequence 2147483647 for two records, then 1."""
    topic, producer_id = asker.topic(), _producer(asker)
    first = _send(asker, topic, producer_id, 0, 2_147_483_647, 2)
    return [first, _send(asker, topic, producer_id, 0, 1)]


@question
def sequence_negative(asker: Asker) -> Any:
    """A producer id with sequence -1."""
    return _send(asker, asker.topic(), _producer(asker), 0, -1)


@question
def epoch_negative(asker: Asker) -> Any:
    """A producer id with epoch -1."""
    return _send(asker, asker.topic(), _producer(asker), -1, 0)


@question
def find_coordinator(asker: Asker) -> Any:
    """FindCoordinator v1 for key types 0, 1, 2 and 9, once internal topics exist: [error, node id]."""
    return [_coordinator(asker, key_type) for key_type in (0, 1, 2, 9)]


def _coordinator(asker: Asker, key_type: int) -> Any:
    answer = eventually(
        lambda: asker.fields("FindCoordinator", 1, key="my-key", key_type=key_type),
        lambda answer: answer["error_code"] != NOT_AVAILABLE,
    )
    return [answer["error_code"], answer["node_id"]]
