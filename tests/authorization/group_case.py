"""Cases about groups and their offsets."""

from __future__ import annotations

from typing import Any

from tests.authorization.case import Case
from tests.authorization.plain import Id

_NAMED = ("t", "other", "absent")
_WITH_TOPIC = (
    "READ GROUP g, READ TOPIC t",
    "READ GROUP *, READ TOPIC other",
    "READ GROUP g, DESCRIBE TOPIC t",
    "READ GROUP g, READ TOPIC absent",
    "READ GROUP g, READ TOPIC *",
    "READ GROUP g, READ TOPIC *, DENY READ TOPIC t",
    "DESCRIBE GROUP g, DESCRIBE TOPIC t",
    "DESCRIBE GROUP g, DESCRIBE TOPIC *, DENY DESCRIBE TOPIC t",
    "ALL GROUP *, READ TOPIC t, DENY READ GROUP g",
    "ALL PREFIXED GROUP g, ALL TOPIC *",
)
_CONSUMER = (
    *("READ GROUP c", "DESCRIBE GROUP c", "DELETE GROUP c", "ALL GROUP c", "ALL GROUP c, DENY DELETE GROUP c"),
    *("ALL GROUP c, READ TOPIC t", "ALL GROUP c, DESCRIBE TOPIC t, DESCRIBE TOPIC other", "ALL GROUP c, READ TOPIC *"),
    *("READ GROUP c, DESCRIBE TOPIC t", "DELETE GROUP c, READ TOPIC t", "ALL GROUP c, ALL TOPIC *"),
)


def _commits(version: int, *, by_id: bool) -> Case:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    topics: list[dict[str, Any]] = [{"name": name, "partitions": partitions} for name in _NAMED]
    if by_id:
        topics = [{"topic_id": Id(name), "partitions": partitions} for name in _NAMED]
    what = "by id" if by_id else "by name"
    return Case("OffsetCommit", version, what, {"group_id": "g", "topics": topics}, _WITH_TOPIC)


_TOPICS = [{"name": name, "partition_indexes": [0]} for name in _NAMED]
_TOPICS_BY_ID = [{"topic_id": Id(name), "partition_indexes": [0]} for name in _NAMED]
_MEMBER = {"group_id": "g", "generation_id": 1, "member_id": "m"}

CASES = [
    _commits(7, by_id=False),
    _commits(10, by_id=True),
    Case("OffsetFetch", 1, "of topics", {"group_id": "g", "topics": _TOPICS}, _WITH_TOPIC),
    Case("OffsetFetch", 5, "of topics", {"group_id": "g", "topics": _TOPICS}, _WITH_TOPIC),
    Case("OffsetFetch", 5, "of all topics", {"group_id": "g", "topics": None}, _WITH_TOPIC),
    Case("OffsetFetch", 9, "of two groups",
         {"groups": [{"group_id": "g", "topics": _TOPICS}, {"group_id": "g2", "topics": None}]},
         (*_WITH_TOPIC, "DESCRIBE GROUP g2, DESCRIBE TOPIC t")),
    Case("OffsetFetch", 10, "by id",
         {"groups": [{"group_id": "g", "topics": _TOPICS_BY_ID}, {"group_id": "g2", "topics": None}]},
         (*_WITH_TOPIC, "DESCRIBE GROUP g2, DESCRIBE TOPIC t")),
    Case("OffsetDelete", 0, "of a simple group that does not exist",
         {"group_id": "absent", "topics": [{"name": name, "partitions": [{"partition_index": 0}]} for name in _NAMED]},
         ("DELETE GROUP absent", "DELETE GROUP absent, READ TOPIC t", "ALL GROUP absent, READ TOPIC absent")),
    Case("OffsetDelete", 0, "of subscribed topics",
         {"group_id": "c", "topics": [{"name": name, "partitions": [{"partition_index": 0}]} for name in _NAMED]},
         _CONSUMER),
    Case("FindCoordinator", 2, "of a group", {"key": "g", "key_type": 0}, ("DESCRIBE GROUP *", "DESCRIBE GROUP g2")),
    Case("FindCoordinator", 2, "of a transactional id", {"key": "x", "key_type": 1}),
    Case("FindCoordinator", 6, "of groups", {"coordinator_keys": ["g", "g2", ""], "key_type": 0},
         ("DESCRIBE GROUP *", "READ PREFIXED GROUP g", "DESCRIBE GROUP *, DENY DESCRIBE GROUP g")),
    Case("FindCoordinator", 6, "of transactional ids", {"coordinator_keys": ["x", "y"], "key_type": 1},
         ("DESCRIBE TRANSACTIONAL_ID *", "WRITE TRANSACTIONAL_ID y")),
    Case("JoinGroup", 9, "as an unknown member",
         {"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 30000, "member_id": "m",
          "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}),
    Case("SyncGroup", 5, "as an unknown member", {**_MEMBER, "protocol_type": "consumer", "protocol_name": "range"}),
    Case("SyncGroup", 5, "without a protocol", _MEMBER),
    Case("Heartbeat", 4, "as an unknown member", _MEMBER),
    Case("LeaveGroup", 2, "as an unknown member", {"group_id": "g", "member_id": "m"}),
    Case("LeaveGroup", 5, "as an unknown member", {"group_id": "g", "members": [{"member_id": "m"}]}),
    Case("DescribeGroups", 5, "with operations",
         {"groups": ["g", "g2", "absent"], "include_authorized_operations": True},
         ("DESCRIBE GROUP *", "ALL GROUP g, DENY DELETE GROUP g", "READ GROUP absent")),
    Case("ListGroups", 4, "all", {}, ("DESCRIBE GROUP *", "READ GROUP c", "DELETE PREFIXED GROUP g")),
    Case("DeleteGroups", 2, "with members, and absent", {"groups_names": ["c", "absent"]},
         (*_CONSUMER, "DELETE GROUP absent")),
    Case("ConsumerGroupHeartbeat", 1, "as an unknown member",
         {"group_id": "c", "member_id": "m", "member_epoch": 5, "subscribed_topic_names": ["t", "other"]}, _CONSUMER),
    Case("ConsumerGroupHeartbeat", 1, "without topics", {"group_id": "c", "member_id": "m", "member_epoch": 5},
         _CONSUMER),
    Case("ConsumerGroupHeartbeat", 1, "with a regular expression",
         {"group_id": "c", "member_id": "m", "member_epoch": 5, "subscribed_topic_regex": "t|other"}, _CONSUMER),
    Case("ConsumerGroupDescribe", 1, "with operations",
         {"group_ids": ["c", "g", "absent"], "include_authorized_operations": True}, (*_CONSUMER, *_WITH_TOPIC)),
]  # fmt: skip
