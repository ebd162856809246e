"""Transactions asked step by step: identities, and a plain request for each API."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from tests.clients.ask.asker import Asker, eventually
from tests.clients.ask.group import NOT_YET, new_group

TIMEOUT_MS = 60_000


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
