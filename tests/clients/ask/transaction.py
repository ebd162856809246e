"""Transactions: what producers are told when they are right, late, wrong or somebody else."""

from __future__ import annotations

from typing import Any

from tests.clients.ask.asker import Asker, question
from tests.clients.ask.transaction_step import (
    Identity,
    add,
    changed,
    end,
    init,
    new_producer,
    new_transactional_id,
    settled,
    stable_end,
    write,
)

OFFSETS = "__consumer_offsets"


def _begun(asker: Asker) -> tuple[Identity, str]:
    """A producer with one record in an open transaction, and the topic."""
    producer, topic = new_producer(asker), asker.topic()
    add(asker, producer, (topic, 0))
    write(asker, producer, topic)
    return producer, topic


def _init_summary(reply: dict[str, Any], before: Identity | None = None) -> list[Any]:
    same = before is not None and reply["producer_id"] == before.producer_id
    return [reply["error_code"], same, reply["producer_epoch"]]


@question
def init_again(asker: Asker) -> Any:
    """InitProducerId for one transactional id three times: code, the same producer id, epoch."""
    producer = new_producer(asker)
    return [_init_summary(init(asker, producer.name), producer) for _ in range(3)]


@question
def init_resumed(asker: Asker) -> Any:
    """InitProducerId v3 of a producer that shows its identity (KIP-360): the newest, the former, one that is not."""
    producer = new_producer(asker)
    shown = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    return {
        "newest": _init_summary(init(asker, producer.name, 3, **shown), producer),
        "repeated": _init_summary(init(asker, producer.name, 3, **shown), producer),
        "unknown epoch": _init_summary(init(asker, producer.name, 3, **{**shown, "producer_epoch": 9}), producer),
        "unknown epoch, v4": _init_summary(init(asker, producer.name, 4, **{**shown, "producer_epoch": 9}), producer),
        "another id, v4": _init_summary(init(asker, producer.name, 4, **{**shown, "producer_id": 12345}), producer),
        "then": _init_summary(init(asker, producer.name, 4), producer),
    }


@question
def init_refused(asker: Asker) -> Any:
    """InitProducerId with a timeout of 0, below 0, above the limit, and an id without an epoch."""
    name = new_transactional_id(asker)
    return {
        "zero": _init_summary(init(asker, name, transaction_timeout_ms=0)),
        "negative": _init_summary(init(asker, name, transaction_timeout_ms=-1)),
        "too long": _init_summary(init(asker, name, transaction_timeout_ms=900_001)),
        "half an identity": _init_summary(init(asker, name, producer_id=5)),
        "empty": asker.fields("InitProducerId", 4, transactional_id="", transaction_timeout_ms=1000)["error_code"],
    }


@question
def init_over_open(asker: Asker) -> Any:
    """Another producer comes while a transaction is open: its answers, and what the former one is told."""
    producer, topic = _begun(asker)
    first = init(asker, producer.name)
    aborted = settled(asker, producer)
    second = init(asker, producer.name)
    return {
        "first": _init_summary(first, producer),
        "aborted": aborted,
        "second": _init_summary(second, producer),
        "late write": write(asker, producer, topic, 1),
        "late add": add(asker, producer, (topic, 0)),
        "late add, v1": add(asker, producer, (topic, 0), version=1),
        "late end": end(asker, producer),
        "late end, v1": end(asker, producer, version=1),
        "ends": stable_end(asker, topic),
    }


@question
def add_refused(asker: Asker) -> Any:
    """AddPartitionsToTxn of what is not there or internal, by nobody, with another id or epoch; the state then."""
    producer, topic = new_producer(asker), asker.topic()
    nobody = changed(producer, name=new_transactional_id(asker))
    return {
        "absent partition": add(asker, producer, (topic, 0), (topic, 7)),
        "absent topic": add(asker, producer, (topic, 0), ("absent-topic", 7)),
        "internal": add(asker, producer, (topic, 0), (OFFSETS, 7)),
        "nobody": add(asker, nobody, (topic, 0)),
        "another id": add(asker, changed(producer, producer_id=producer.producer_id + 1), (topic, 0)),
        "newer epoch": add(asker, changed(producer, epoch=5), (topic, 0)),
        "newer epoch, v1": add(asker, changed(producer, epoch=5), (topic, 0), version=1),
        "nothing": add(asker, producer),
        "no name": add(asker, changed(producer, name=""), (topic, 0)),
        "then": settled(asker, producer),
    }


@question
def add_twice(asker: Asker) -> Any:
    """AddPartitionsToTxn twice for the same partition, and then for another."""
    producer, topic = new_producer(asker), asker.topic(partitions=2)
    codes = [add(asker, producer, (topic, 0)) for _ in range(2)]
    return [*codes, add(asker, producer, (topic, 1)), settled(asker, producer)]


@question
def write_unverified(asker: Asker) -> Any:
    """Produce of a transactional batch to a partition that was not added, by version and by identity."""
    producer, topic = new_producer(asker), asker.topic()
    added = asker.topic()
    add(asker, producer, (added, 0))
    return {
        "v9": write(asker, producer, topic, version=9),
        "v10": write(asker, producer, topic, version=10),
        "v11": write(asker, producer, topic, version=11),
        "no transactional id": write(asker, producer, added, name=None),
        "another transactional id": write(asker, producer, added, name=new_producer(asker).name),
        "newer epoch": write(asker, changed(producer, epoch=5), added),
        "another id": write(asker, changed(producer, producer_id=producer.producer_id + 1000), added),
        "ends": [stable_end(asker, topic), stable_end(asker, added)],
    }


@question
def write_adds(asker: Asker) -> Any:
    """Produce v12 adds its partition: one that begins at sequence 5, the first, one of nobody, of a newer epoch."""
    producer, topic = new_producer(asker), asker.topic()
    other = asker.topic()
    return {
        "sequence 5": write(asker, producer, other, 5, version=12),
        "first": write(asker, producer, topic, version=12),
        "second": write(asker, producer, topic, 1, version=12),
        "unknown": write(asker, changed(producer, name=new_transactional_id(asker)), other, version=12),
        "newer epoch": write(asker, changed(producer, epoch=5), other, version=12),
        "then": settled(asker, producer),
        "ends": stable_end(asker, topic),
        "end": end(asker, producer, version=5),
        "complete": settled(asker, producer),
        "late": write(asker, producer, topic, 2, version=12),
        "ends at last": stable_end(asker, topic),
    }


@question
def write_late(asker: Asker) -> Any:
    """Produce v11 and v9 after the transaction was aborted under the same epoch, and a batch that is repeated."""
    producer, topic = _begun(asker)
    return {
        "end": end(asker, producer, is_commit=False),
        "state": settled(asker, producer),
        "late": write(asker, producer, topic, 1),
        "late, v9": write(asker, producer, topic, 1, version=9),
        "repeated": write(asker, producer, topic, 0),
        "ends": stable_end(asker, topic),
    }


@question
def end_twice(asker: Asker) -> Any:
    """EndTxn repeated, contradicted, of nothing, by others; version 3, in which the epoch stays."""
    producer, _topic = _begun(asker)
    empty = new_producer(asker)
    return {
        "commit": end(asker, producer),
        "again": end(asker, producer),
        "abort": end(asker, producer, is_commit=False),
        "then": settled(asker, producer),
        "newer epoch": end(asker, changed(producer, epoch=3)),
        "another id": end(asker, changed(producer, producer_id=producer.producer_id + 1)),
        "nobody": end(asker, changed(producer, name=new_transactional_id(asker))),
        "no name": end(asker, changed(producer, name="")),
        "empty commit": end(asker, empty),
        "empty abort": end(asker, empty, is_commit=False),
        "empty": settled(asker, empty),
    }


@question
def end_raises_epoch(asker: Asker) -> Any:
    """EndTxn version 5: code, the same producer id, epochs further; repeated, contradicted, of nothing."""
    producer, topic = new_producer(asker), asker.topic()
    empty = new_producer(asker)
    write(asker, producer, topic, version=12)
    committed = end(asker, producer, version=5)
    settled(asker, producer)
    found = {
        "commit": committed,
        "again": end(asker, producer, version=5),
        "abort": end(asker, producer, is_commit=False, version=5),
        "then": settled(asker, producer),
    }
    following = changed(producer, epoch=producer.epoch + 1)
    return {
        **found,
        "commit of nothing": end(asker, following, version=5),
        "abort of nothing": end(asker, following, is_commit=False, version=5),
        "at last": settled(asker, producer),
        "empty commit": end(asker, empty, version=5),
        "empty abort": end(asker, empty, is_commit=False, version=5),
        "empty": settled(asker, empty),
    }


@question
def markers_from_a_client(asker: Asker) -> Any:
    """WriteTxnMarkers v1 of a partition that is not there, one that aborts what is open, of zombies."""
    producer, topic = _begun(asker)

    def mark(name: str, epoch: int, coordinator_epoch: int = 0) -> list[int]:
        marker = {
            "producer_id": producer.producer_id,
            "producer_epoch": epoch,
            "transaction_result": False,
            "topics": [{"name": name, "partition_indexes": [0]}],
            "coordinator_epoch": coordinator_epoch,
        }
        reply = asker.fields("WriteTxnMarkers", 1, markers=[marker])
        partitions = (each for found in reply["markers"] for each in found["topics"])
        return [partition["error_code"] for each in partitions for partition in each["partitions"]]

    bumped = write(asker, producer, topic, 1)
    return {
        "write": bumped,
        "absent": mark("absent-topic", 0),
        "before": stable_end(asker, topic),
        "abort": mark(topic, 0, 7),
        "after": stable_end(asker, topic),
        "zombie": mark(topic, 0, 6),
        "newer": mark(topic, 4, 7),
        "older": mark(topic, 3, 7),
        "end": stable_end(asker, topic),
    }


@question
def describe_producers(asker: Asker) -> Any:
    """DescribeProducers of a partition with a transaction that is over and one that is open; of absent ones."""
    former, topic = _begun(asker)
    end(asker, former)
    settled(asker, former)
    producer = new_producer(asker)
    add(asker, producer, (topic, 0))
    write(asker, producer, topic)
    topics = [{"name": topic, "partition_indexes": [0, 9]}, {"name": "absent-topic", "partition_indexes": [0]}]
    reply = asker.fields("DescribeProducers", 0, topics=topics)
    return [
        [
            partition["error_code"],
            sorted(
                [
                    each["producer_epoch"],
                    each["last_sequence"],
                    each["coordinator_epoch"],
                    each["current_txn_start_offset"],
                ]
                for each in partition["active_producers"]
            ),
        ]
        for found in reply["topics"]
        for partition in found["partitions"]
    ]


@question
def describe_and_list(asker: Asker) -> Any:
    """DescribeTransactions of nobody and of no name; ListTransactions with filters, one of them unknown."""
    producer, _topic = _begun(asker)
    described = asker.fields("DescribeTransactions", 0, transactional_ids=[new_transactional_id(asker), ""])
    filters = {"state_filters": ["Ongoing", "Unheard"], "producer_id_filters": [producer.producer_id]}
    listed = asker.fields("ListTransactions", 0, **filters)
    none = asker.fields("ListTransactions", 0, **{**filters, "state_filters": ["Empty"]})
    long = asker.fields("ListTransactions", 1, **filters, duration_filter=3_600_000)
    return {
        "described": [each["error_code"] for each in described["transaction_states"]],
        "listed": [each["transaction_state"] for each in listed["transaction_states"]],
        "unknown": listed["unknown_state_filters"],
        "none": [each["transaction_state"] for each in none["transaction_states"]],
        "long": [each["transaction_state"] for each in long["transaction_states"]],
        "pattern": asker.fields("ListTransactions", 2, **filters, transactional_id_pattern="(")["error_code"],
    }
