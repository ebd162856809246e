"""Cases about topics and their records."""

from __future__ import annotations

from typing import Any

from tests.authorization.case import Case
from tests.authorization.plain import Id
from tests.authorization.wire import Wire
from tests.authorization.world import World
from tests.unit.sample import make_batch

_BATCH = bytes(make_batch(b"value"))
_TRANSACTIONAL_BATCH = bytes(make_batch(b"value", producer=(12345, 0, 0), is_transactional=True))
_NAMED = ("t", "other", "absent")
_ABOUT_ABSENT = (
    *("READ TOPIC absent", "WRITE TOPIC absent", "DESCRIBE TOPIC absent", "CREATE TOPIC absent", "DELETE TOPIC absent"),
    *("ALL TOPIC t, ALL TOPIC absent", "ALL PREFIXED TOPIC a"),
)
_CREATE_ABSENT = (
    "DESCRIBE TOPIC absent, CREATE TOPIC absent",
    "DESCRIBE TOPIC absent, CREATE CLUSTER kafka-cluster",
    "DESCRIBE TOPIC *, CREATE PREFIXED TOPIC ab",
    "ALL TOPIC absent, DENY CREATE TOPIC absent",
    "ALL TOPIC absent, DENY CREATE CLUSTER kafka-cluster",
)
_ABOUT_DOOMED = (
    *("DELETE TOPIC doomed", "DESCRIBE TOPIC doomed", "READ TOPIC doomed", "ALTER TOPIC doomed", "CREATE TOPIC doomed"),
    *("DELETE TOPIC *", "DELETE PREFIXED TOPIC doo", "ALL TOPIC *, DENY DELETE TOPIC doomed"),
    "ALL TOPIC *, DENY DESCRIBE TOPIC doomed",
)
_DENIED = ("ALL TOPIC *, DENY READ TOPIC t", "ALL TOPIC *, DENY WRITE TOPIC t", "ALL TOPIC *, DENY DESCRIBE TOPIC t")
_PAIRS = ("READ TOPIC t, WRITE TOPIC other", "WRITE TOPIC t, READ TOPIC other")


def _delete_created(world: World, _: Wire, response: Any) -> None:
    """Delete the topic `absent` if the request created it."""
    if any(topic.name == "absent" and topic.error_code in (0, 3, 5) for topic in response.topics):
        world.wait_for_topic("absent")
        world.delete_topic("absent")


def _create_again(world: World, _: Wire, response: Any) -> None:
    if any(topic.error_code == 0 for topic in response.responses):
        world.create_topic("doomed")


def _produce(version: int, what: str, **fields: Any) -> Case:
    records = fields.pop("records", _BATCH)
    data = [{"index": 0, "records": records}]
    named = fields.pop("named", _NAMED)
    topics = [{"topic_id": Id(name), "partition_data": data} for name in named]
    if version < 13:
        topics = [{"name": name, "partition_data": data} for name in named]
    also = (*_ABOUT_ABSENT, *_DENIED, *_PAIRS, "WRITE TOPIC t, WRITE TRANSACTIONAL_ID x")
    return Case(
        "Produce", version, what, {"acks": 1, "timeout_ms": 1000, "topic_data": topics, **fields}, also,
        has_reply=fields.get("acks") != 0,
    )  # fmt: skip


def _fetch(version: int, what: str, **fields: Any) -> Case:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    topics = [{"topic_id": Id(name), "partitions": partitions} for name in _NAMED]
    if version < 13:
        topics = [{"topic": name, "partitions": partitions} for name in _NAMED]
    also = (*_ABOUT_ABSENT, *_DENIED, *_PAIRS, "READ TOPIC *, CLUSTER_ACTION CLUSTER kafka-cluster")
    return Case("Fetch", version, what, {"max_wait_ms": 0, "max_bytes": 9999, "topics": topics, **fields}, also)


def _metadata(version: int, what: str, **fields: Any) -> Case:
    creates = version < 4 or fields.get("allow_auto_topic_creation", True)
    if version >= 4:
        fields.setdefault("allow_auto_topic_creation", True)
    return Case(
        "Metadata", version, what, fields, (*_ABOUT_ABSENT, *_CREATE_ABSENT, *_DENIED, *_PAIRS),
        _delete_created if creates else None,
    )  # fmt: skip


def _partitions(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": [fields]} for name in _NAMED]


_NAMES = [{"name": name} for name in _NAMED]
_IDS = [{"topic_id": Id(name), "name": None} for name in _NAMED]
_NEW = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("absent", "t")]
_EPOCHS = [{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]} for name in _NAMED]

CASES = [
    _produce(9, "by name"),
    _produce(13, "by id"),
    _produce(9, "with all in-sync replicas", acks=-1),
    _produce(9, "without acknowledgement", acks=0, named=("t",)),
    _produce(11, "in a transaction", transactional_id="x", records=_TRANSACTIONAL_BATCH, acks=-1),
    _fetch(4, "by name"),
    _fetch(12, "by name in a session", session_epoch=0),
    _fetch(16, "by id"),
    _fetch(11, "as a follower", replica_id=7),
    _fetch(16, "as a follower by id", replica_state={"replica_id": 7}),
    Case("ListOffsets", 7, "latest", {"replica_id": -1, "topics": _partitions(partition_index=0, timestamp=-1)},
         (*_ABOUT_ABSENT, *_DENIED, *_PAIRS)),
    Case("ListOffsets", 7, "as a follower", {"replica_id": 7, "topics": _partitions(partition_index=0, timestamp=-1)}),
    Case("OffsetForLeaderEpoch", 4, "as a consumer", {"replica_id": -1, "topics": _EPOCHS},
         (*_ABOUT_ABSENT, *_DENIED, *_PAIRS)),
    Case("OffsetForLeaderEpoch", 3, "as a follower", {"replica_id": 7, "topics": _EPOCHS}),
    Case("DeleteRecords", 2, "nothing of each topic",
         {"timeout_ms": 1000, "topics": _partitions(partition_index=0, offset=0)}, (*_ABOUT_ABSENT, *_DENIED)),
    _metadata(0, "all topics", topics=[]),
    _metadata(1, "all topics", topics=None),
    _metadata(1, "by name, with creation", topics=_NAMES),
    _metadata(4, "by name, without creation", topics=_NAMES, allow_auto_topic_creation=False),
    _metadata(4, "by name, with creation", topics=_NAMES),
    _metadata(9, "by name, with creation and operations", topics=_NAMES, include_topic_authorized_operations=True,
              include_cluster_authorized_operations=True),
    _metadata(9, "all topics, with operations", topics=None, include_topic_authorized_operations=True,
              include_cluster_authorized_operations=True),
    _metadata(12, "by id", topics=_IDS, include_topic_authorized_operations=True),
    _metadata(13, "by name, without creation", topics=_NAMES, allow_auto_topic_creation=False),
    Case("DescribeTopicPartitions", 0, "by name", {"topics": _NAMES}, (*_ABOUT_ABSENT, *_DENIED)),
    Case("DescribeTopicPartitions", 0, "all topics", {"topics": []}, _DENIED),
    Case("CreateTopics", 4, "without configs", {"topics": _NEW, "validate_only": True, "timeout_ms": 1000},
         (*_ABOUT_ABSENT, *_CREATE_ABSENT)),
    Case("CreateTopics", 7, "with configs", {"topics": _NEW, "validate_only": True, "timeout_ms": 1000},
         (*_ABOUT_ABSENT, *_CREATE_ABSENT, "CREATE TOPIC absent, DESCRIBE_CONFIGS TOPIC absent",
          "CREATE CLUSTER kafka-cluster, DESCRIBE_CONFIGS TOPIC *")),
    Case("CreateTopics", 7, "twice the same", {"topics": [_NEW[0], _NEW[0]], "validate_only": True, "timeout_ms": 1000},
         (*_ABOUT_ABSENT, *_CREATE_ABSENT)),
    Case("DeleteTopics", 5, "by name", {"topic_names": ["doomed", "absent"], "timeout_ms": 9000},
         (*_ABOUT_DOOMED, *_ABOUT_ABSENT), _create_again),
    Case("DeleteTopics", 6, "by name", {"topics": [{"name": "doomed"}, {"name": "absent"}], "timeout_ms": 9000},
         (*_ABOUT_DOOMED, *_ABOUT_ABSENT), _create_again),
    Case("DeleteTopics", 6, "by id",
         {"topics": [{"topic_id": Id("doomed")}, {"topic_id": Id("absent")}], "timeout_ms": 9000},
         _ABOUT_DOOMED, _create_again),
    Case("CreatePartitions", 3, "of each topic",
         {"topics": [{"name": name, "count": 9} for name in _NAMED], "validate_only": True, "timeout_ms": 1000},
         (*_ABOUT_ABSENT, *_DENIED, "ALTER TOPIC absent", "ALTER TOPIC *, DENY ALTER TOPIC t")),
]  # fmt: skip
