"""Transactions asked step by step: identities, and a plain request for each API."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from tests.clients.ask.asker import Asker, produce_fields
from tests.clients.ask.group import NOT_YET, new_group
from tests.clients.raw import batch
from tests.eventual import eventually

TIMEOUT_MS = 60_000
TRANSACTIONAL = 1 << 4
CONCURRENT = 51


class Identity(NamedTuple):
    """A transactional id and what its newest producer writes with."""

    name: str
    producer_id: int
    epoch: int


def new_transactional_id(asker: Asker) -> str:
    """A name that nobody uses, once its coordinator is there."""
    name = f"ask-{uuid.uuid4().hex[:12]}"
    eventually(
        lambda: asker.fields("FindCoordinator", 1, key=name, key_type=1)["error_code"], lambda code: code not in NOT_YET
    )
    eventually(
        lambda: asker.fields("DescribeTransactions", 0, transactional_ids=[name])["transaction_states"][0][
            "error_code"
        ],
        lambda code: code not in NOT_YET,
    )
    return name


def init(asker: Asker, name: str, version: int = 4, **changes: Any) -> dict[str, Any]:
    """InitProducerId, which a broker that has just started may put off."""
    fields = {"transactional_id": name, "transaction_timeout_ms": TIMEOUT_MS, **changes}
    return eventually(
        lambda: asker.fields("InitProducerId", version, **fields), lambda reply: reply["error_code"] not in NOT_YET
    )


def new_producer(asker: Asker) -> Identity:
    """The first producer of a transactional id."""
    name = new_transactional_id(asker)
    reply = init(asker, name)
    return Identity(name, reply["producer_id"], reply["producer_epoch"])


def add_fields(identity: Identity, topic: str, version: int) -> dict[str, Any]:
    """AddPartitionsToTxn for one partition."""
    topics = [{"name": topic, "partitions": [0]}]
    if version < 4:
        return {
            "v3_and_below_transactional_id": identity.name,
            "v3_and_below_producer_id": identity.producer_id,
            "v3_and_below_producer_epoch": identity.epoch,
            "v3_and_below_topics": topics,
        }
    return {
        "transactions": [
            {
                "transactional_id": identity.name,
                "producer_id": identity.producer_id,
                "producer_epoch": identity.epoch,
                "verify_only": False,
                "topics": topics,
            }
        ]
    }


def identity_fields(identity: Identity) -> dict[str, Any]:
    """What most requests of a transaction begin with."""
    return {
        "transactional_id": identity.name,
        "producer_id": identity.producer_id,
        "producer_epoch": identity.epoch,
    }


def sensible_fields(asker: Asker, api: str, version: int, topic: str) -> dict[str, Any]:
    """The fields of a request that must succeed."""
    if api == "ListTransactions":
        return {"state_filters": [], "producer_id_filters": []}
    if api == "DescribeProducers":
        return {"topics": [{"name": topic, "partition_indexes": [0]}]}
    identity = new_producer(asker)
    if api == "DescribeTransactions":
        return {"transactional_ids": [identity.name]}
    if api == "AddPartitionsToTxn":
        return add_fields(identity, topic, version)
    group = new_group(asker)
    if api == "AddOffsetsToTxn":
        return {**identity_fields(identity), "group_id": group}
    if api == "WriteTxnMarkers":
        marker = {
            "producer_id": identity.producer_id,
            "producer_epoch": identity.epoch,
            "transaction_result": False,
            "topics": [{"name": topic, "partition_indexes": [0]}],
            "coordinator_epoch": 0,
        }
        return {"markers": [marker]}
    asker.fields("AddOffsetsToTxn", 3, **identity_fields(identity), group_id=group)
    if api == "EndTxn":
        return {**identity_fields(identity), "committed": True}
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    return {
        **identity_fields(identity),
        "group_id": group,
        "member_id": "",
        "topics": [{"name": topic, "partitions": [partition]}],
    }


def changed(identity: Identity, **changes: Any) -> Identity:
    """Another identity, right but for the changes."""
    return identity._replace(**changes)


def add(asker: Asker, identity: Identity, *partitions: tuple[str, int], version: int = 3) -> list[list[Any]]:
    """AddPartitionsToTxn as a client sends it; the code of each partition."""
    topics: dict[str, list[int]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(index)
    fields = add_fields(identity, "", version)
    fields["v3_and_below_topics"] = [{"name": name, "partitions": found} for name, found in topics.items()]
    reply = asker.fields("AddPartitionsToTxn", version, **fields)
    return sorted(
        [result["partition_index"], result["partition_error_code"]]
        for topic in reply["results_by_topic_v3_and_below"]
        for result in topic["results_by_partition"]
    )


def write(
    asker: Asker,
    identity: Identity,
    topic: str,
    sequence: int = 0,
    *,
    version: int = 11,
    name: Any = ...,
    partition: int = 0,
) -> int:
    """Produce one transactional record; the code. By another name, or none, the request's transactional id differs."""
    records = batch(producer=(identity.producer_id, identity.epoch, sequence), attributes=TRANSACTIONAL)
    fields = produce_fields(topic, records, -1, partition)
    fields["transactional_id"] = identity.name if name is ... else name
    reply = asker.fields("Produce", version, **fields)
    return int(reply["responses"][0]["partition_responses"][0]["error_code"])


def add_offsets(asker: Asker, identity: Identity, group: str, version: int = 3) -> int:
    """AddOffsetsToTxn; the code."""
    return int(asker.fields("AddOffsetsToTxn", version, **identity_fields(identity), group_id=group)["error_code"])


def commit_offset(
    asker: Asker,
    identity: Identity,
    group: str,
    topic: str,
    *,
    offset: int = 5,
    partition: int = 0,
    version: int = 3,
) -> int:
    """TxnOffsetCommit for one partition, from a producer that is in no group; the code."""
    committed = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
    reply = asker.fields(
        "TxnOffsetCommit",
        version,
        **identity_fields(identity),
        group_id=group,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": topic, "partitions": [{**committed, "committed_leader_epoch": -1}]}],
    )
    return int(reply["topics"][0]["partitions"][0]["error_code"])


def end(asker: Asker, identity: Identity, *, is_commit: bool = True, version: int = 3) -> list[Any]:
    """EndTxn, again while the former end is carried out; the code, and from version 5 how the epoch has moved."""
    reply = eventually(
        lambda: asker.fields("EndTxn", version, **identity_fields(identity), committed=is_commit),
        lambda found: found["error_code"] not in {*NOT_YET, CONCURRENT},
    )
    if version < 5 or reply["error_code"]:
        return [reply["error_code"]]
    return [0, reply["producer_id"] == identity.producer_id, reply["producer_epoch"] - identity.epoch]


def settled(asker: Asker, identity: Identity) -> dict[str, Any]:
    """What DescribeTransactions says once no end is being carried out."""
    reply = eventually(
        lambda: asker.fields("DescribeTransactions", 0, transactional_ids=[identity.name])["transaction_states"][0],
        lambda found: not found["transaction_state"].startswith("Prepare"),
    )
    return {
        "error": reply["error_code"],
        "state": reply["transaction_state"],
        "epoch": reply["producer_epoch"],
        "partitions": sum(len(topic["partitions"]) for topic in reply["topics"]),
        "is_open": reply["transaction_start_time_ms"] > 0,
    }


def stable_end(asker: Asker, topic: str) -> list[int]:
    """Where readers of committed records, and all others, come to an end."""
    return [_end(asker, topic, level) for level in (1, 0)]


def _end(asker: Asker, topic: str, isolation_level: int) -> int:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    fields = {
        "replica_id": -1,
        "isolation_level": isolation_level,
        "topics": [{"name": topic, "partitions": [partition]}],
    }
    return int(asker.fields("ListOffsets", 5, **fields)["topics"][0]["partitions"][0]["offset"])
