"""Cases about producers and transactions. The requests come from producers that are fenced, so that nothing changes."""

from __future__ import annotations

from typing import Any

from tests.authorization.case import Case

_NAMED = ("t", "other", "absent")
_OTHER_PRODUCER = {"producer_id": 12345, "producer_epoch": 3}
_WRITES = (
    "WRITE TRANSACTIONAL_ID x, WRITE TOPIC t",
    "WRITE TRANSACTIONAL_ID x, WRITE TOPIC *",
    "WRITE TRANSACTIONAL_ID x, WRITE TOPIC t, WRITE TOPIC other",
    "WRITE TRANSACTIONAL_ID *, WRITE TOPIC *, DENY WRITE TRANSACTIONAL_ID x",
    "WRITE TRANSACTIONAL_ID x, WRITE TOPIC t, CLUSTER_ACTION CLUSTER kafka-cluster",
)
_OFFSETS = (
    "WRITE TRANSACTIONAL_ID x, READ GROUP g",
    "WRITE TRANSACTIONAL_ID x, READ GROUP g, READ TOPIC t",
    "WRITE TRANSACTIONAL_ID x, READ GROUP g, READ TOPIC *",
    "WRITE TRANSACTIONAL_ID x, DESCRIBE GROUP g, READ TOPIC t",
    "READ GROUP g, READ TOPIC t",
)
_DESCRIBED = (
    "DESCRIBE TRANSACTIONAL_ID x, DESCRIBE TOPIC t",
    "DESCRIBE TRANSACTIONAL_ID x, READ TOPIC *, DENY DESCRIBE TOPIC t",
    "DESCRIBE TRANSACTIONAL_ID *",
    "DESCRIBE TRANSACTIONAL_ID x2",
    "DESCRIBE TRANSACTIONAL_ID absent",
)


def _added(topics: tuple[str, ...]) -> dict[str, Any]:
    return {
        "v3_and_below_transactional_id": "x",
        "v3_and_below_producer_id": 12345,
        "v3_and_below_producer_epoch": 3,
        "v3_and_below_topics": [{"name": name, "partitions": [0]} for name in topics],
    }


def _offsets(version: int, what: str, topics: list[dict[str, Any]]) -> Case:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    fields = {
        **{"transactional_id": "x", "group_id": "g", **_OTHER_PRODUCER},
        **({"generation_id_or_member_epoch": 7, "member_id": "m"} if version >= 3 else {}),
        "topics": [{**topic, "partitions": partitions} for topic in topics],
    }
    return Case("TxnOffsetCommit", version, what, fields, _OFFSETS)


CASES = [
    Case("InitProducerId", 4, "without a transactional id", {"transactional_id": None, "transaction_timeout_ms": 1000},
         ("WRITE TOPIC absent", "WRITE PREFIXED TOPIC zz", "WRITE TOPIC *", "WRITE TOPIC t, DENY WRITE TOPIC t",
          "WRITE TOPIC t, DENY WRITE TOPIC *", "WRITE TOPIC t, DENY IDEMPOTENT_WRITE CLUSTER kafka-cluster")),
    Case("InitProducerId", 4, "with a transactional id",
         {"transactional_id": "x", "transaction_timeout_ms": 1000, **_OTHER_PRODUCER},
         ("ALL TRANSACTIONAL_ID x, DENY WRITE TRANSACTIONAL_ID x",)),
    Case("InitProducerId", 6, "with two-phase commit",
         {"transactional_id": "x", "transaction_timeout_ms": 1000, "enable2_pc": True, **_OTHER_PRODUCER},
         ("WRITE TRANSACTIONAL_ID x, TWO_PHASE_COMMIT TRANSACTIONAL_ID x",)),
    Case("AddPartitionsToTxn", 3, "of a client", _added(_NAMED), _WRITES),
    Case("AddPartitionsToTxn", 3, "of existing topics", _added(("t", "other")), _WRITES),
    Case("AddPartitionsToTxn", 5, "of a broker",
         {"transactions": [{"transactional_id": "x", "topics": [{"name": name, "partitions": [0]} for name in _NAMED],
                            **_OTHER_PRODUCER}]}, _WRITES),
    Case("AddOffsetsToTxn", 4, "of a fenced producer", {"transactional_id": "x", "group_id": "g", **_OTHER_PRODUCER},
         _OFFSETS),
    Case("EndTxn", 4, "of a fenced producer", {"transactional_id": "x", "committed": True, **_OTHER_PRODUCER}),
    _offsets(2, "of a client without members", [{"name": name} for name in _NAMED]),
    _offsets(4, "of an unknown member", [{"name": name} for name in _NAMED]),
    Case("WriteTxnMarkers", 1, "of an absent topic",
         {"markers": [{"topics": [{"name": "absent", "partition_indexes": [0]}], "transaction_result": False,
                       **_OTHER_PRODUCER}]}),
    Case("DescribeProducers", 0, "of each topic",
         {"topics": [{"name": name, "partition_indexes": [0]} for name in _NAMED]},
         ("READ TOPIC absent", "READ TOPIC *", "READ TOPIC *, DENY READ TOPIC t")),
    Case("DescribeTransactions", 0, "by id", {"transactional_ids": ["x", "x2", "absent"]}, _DESCRIBED),
    Case("ListTransactions", 1, "all", {}, _DESCRIBED),
]  # fmt: skip
