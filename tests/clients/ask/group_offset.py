"""Offsets of groups, and groups seen from outside."""

from __future__ import annotations

import uuid
from typing import Any

from tests.clients.ask.asker import NO_ID, Asker, question
from tests.clients.ask.group import new_group

_topics: dict[str, str] = {}


def shared_topic(asker: Asker) -> str:
    """A topic with one partition that several questions commit for."""
    if asker.bootstrap not in _topics:
        _topics[asker.bootstrap] = asker.topic()
    return _topics[asker.bootstrap]


def commit_fields(
    group: str, topic: str, offset: int = 5, partition: int = 0, metadata: str | None = "", **changes: Any
) -> dict[str, Any]:
    """OffsetCommit from a consumer without a group, unless changed."""
    partitions = [
        {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": metadata,
        }
    ]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": partitions}],
        **changes,
    }


def commit(asker: Asker, group: str, topic: str, version: int = 8, **changes: Any) -> Any:
    """The error code of an OffsetCommit for one partition."""
    fields = commit_fields(group, topic, **changes)
    if version < 7:
        del fields["group_instance_id"]
    if version < 5:
        fields.setdefault("retention_time_ms", -1)
    if version < 6:
        del fields["topics"][0]["partitions"][0]["committed_leader_epoch"]
    answer = asker.fields("OffsetCommit", version, **fields)
    return answer["topics"][0]["partitions"][0]["error_code"]


def fetch(asker: Asker, group: str, topics: Any, version: int = 5) -> Any:
    """OffsetFetch before version 8: the error and [partition, offset, epoch, metadata, error] by topic."""
    fields: dict[str, Any] = {"group_id": group, "topics": topics}
    if version >= 7:
        fields["require_stable"] = True
    answer = asker.fields("OffsetFetch", version, **fields)
    return [answer.get("error_code"), {topic["name"]: _found(topic) for topic in answer["topics"]}]


def _found(topic: dict[str, Any]) -> list[list[Any]]:
    names = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    return [[partition.get(name) for name in names] for partition in topic["partitions"]]


@question
def commits(asker: Asker) -> Any:
    """OffsetCommit v8 (or as said) from a consumer without a group: the error code of the one partition."""
    group, topic = new_group(asker), shared_topic(asker)
    long = "x" * 4096
    return {
        "fine": commit(asker, group, topic),
        "null metadata": commit(asker, group, topic, metadata=None),
        "longest metadata": commit(asker, group, topic, metadata=long),
        "too long": commit(asker, group, topic, metadata=long + "x"),
        "too many bytes, few characters": commit(asker, group, topic, metadata="ä" * 4000),
        "offset -1": commit(asker, new_group(asker), topic, offset=-1),
        "unknown partition": commit(asker, group, topic, partition=7),
        "negative partition": commit(asker, group, topic, partition=-1),
        "unknown topic": commit(asker, group, "no-such-topic"),
        "bad name": commit(asker, group, ".."),
        "no group": commit(asker, "", topic),
        "generation of a simple group": commit(asker, group, topic, generation_id_or_member_epoch=3, member_id="m"),
        "member without generation": commit(asker, group, topic, member_id="m"),
        "instance without generation": commit(asker, group, topic, group_instance_id="i"),
        "unknown group with generation, v8": commit(
            asker, new_group(asker), topic, generation_id_or_member_epoch=3, member_id="m"
        ),
        "unknown group with generation, v9": commit(
            asker, new_group(asker), topic, 9, generation_id_or_member_epoch=3, member_id="m"
        ),
        "in v2": commit(asker, group, topic, 2),
        "with retention in v4": commit(asker, group, topic, 4, retention_time_ms=60_000),
    }


@question
def commits_by_id(asker: Asker) -> Any:
    """OffsetCommit v10 by id: a known topic, an unknown one and zero."""
    group, topic = new_group(asker), shared_topic(asker)
    codes = []
    for topic_id in (asker.topic_id(topic), uuid.UUID(int=99), NO_ID):
        fields = commit_fields(group, topic)
        partitions = fields["topics"][0]["partitions"]
        fields["topics"] = [{"topic_id": topic_id, "partitions": partitions}]
        answer = asker.fields("OffsetCommit", 10, **fields)
        codes.append(answer["topics"][0]["partitions"][0]["error_code"])
    return codes


@question
def fetches(asker: Asker) -> Any:
    """OffsetFetch v1 to v7 of a group with one offset, and of one that does not exist."""
    group, topic = new_group(asker), shared_topic(asker)
    commit(asker, group, topic, offset=42, metadata="note")
    wanted = [{"name": topic, "partition_indexes": [0, 7]}, {"name": "no-such-topic", "partition_indexes": [0]}]
    answers: dict[str, Any] = {}
    for version in range(1, 8):
        answers[f"v{version}"] = _anonymous(fetch(asker, group, wanted, version), topic)
    answers["all"] = _anonymous(fetch(asker, group, None), topic)
    answers["none"] = fetch(asker, group, [])
    answers["all in v1"] = fetch(asker, group, [], 1)
    answers["unknown group"] = _anonymous(fetch(asker, new_group(asker), wanted), topic)
    answers["all of an unknown group"] = fetch(asker, new_group(asker), None)
    commit(asker, "", topic, offset=7)
    answers["no group"] = _anonymous(fetch(asker, "", [{"name": topic, "partition_indexes": [0]}]), topic)
    return answers


def _anonymous(answer: Any, topic: str) -> Any:
    code, topics = answer
    return [code, {"topic" if name == topic else name: found for name, found in topics.items()}]


@question
def fetches_of_many(asker: Asker) -> Any:
    """OffsetFetch v9 of three groups, one of which does not exist, and of the same one twice."""
    group, topic = new_group(asker), shared_topic(asker)
    commit(asker, group, topic, offset=42, metadata="note")
    wanted = [{"name": topic, "partition_indexes": [0]}]
    groups = [
        {"group_id": group, "member_id": None, "member_epoch": -1, "topics": wanted},
        {"group_id": "no-such-group", "member_id": None, "member_epoch": -1, "topics": wanted},
        {"group_id": group, "member_id": None, "member_epoch": -1, "topics": None},
        {"group_id": group, "member_id": "m", "member_epoch": 3, "topics": wanted},
    ]
    answer = asker.fields("OffsetFetch", 9, groups=groups, require_stable=False)
    return [[found["error_code"], [_found(topic) for topic in found["topics"]]] for found in answer["groups"]]


@question
def fetches_by_id(asker: Asker) -> Any:
    """OffsetFetch v10 by id: a known topic and an unknown one, then all."""
    group, topic = new_group(asker), shared_topic(asker)
    commit(asker, group, topic, offset=42)
    topic_id = asker.topic_id(topic)
    wanted = [{"topic_id": one, "partition_indexes": [0]} for one in (topic_id, uuid.UUID(int=99))]
    answers = []
    for topics in (wanted, None):
        groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}]
        (found,) = asker.fields("OffsetFetch", 10, groups=groups, require_stable=False)["groups"]
        answers.append([[one["topic_id"] == topic_id, _found(one)] for one in found["topics"]])
    return answers


@question
def deletes(asker: Asker) -> Any:
    """OffsetDelete v0: [error, errors by topic] for a simple group, an unknown group and no group."""
    group, topic = new_group(asker), shared_topic(asker)
    commit(asker, group, topic)
    wanted = [
        {"name": topic, "partitions": [{"partition_index": 0}, {"partition_index": 7}]},
        {"name": "no-such-topic", "partitions": [{"partition_index": 0}]},
    ]
    answers = {}
    for label, name in (("simple", group), ("again", group), ("unknown", new_group(asker)), ("no name", "")):
        answer = asker.fields("OffsetDelete", 0, group_id=name, topics=wanted)
        outcomes = {one["name"]: one["partitions"] for one in answer["topics"]}
        codes = {
            name: sorted([p["partition_index"], p["error_code"]] for p in outcomes.get(wire_name, []))
            for name, wire_name in (("topic", topic), ("no-such-topic", "no-such-topic"))
        }
        answers[label] = [answer["error_code"], codes]
    return {**answers, "left": _anonymous(fetch(asker, group, None), topic)}


@question
def describes(asker: Asker) -> Any:
    """DescribeGroups v0, v5 and v6 of a simple group and of one that does not exist."""
    group = new_group(asker)
    commit(asker, group, shared_topic(asker))
    answers = {}
    for version in (0, 5, 6):
        extra = {"include_authorized_operations": True} if version >= 3 else {}
        found = asker.fields("DescribeGroups", version, groups=[group, "no-such-group"], **extra)["groups"]
        names = (
            "error_code",
            "error_message",
            "group_state",
            "protocol_type",
            "protocol_data",
            "authorized_operations",
        )
        by_name = {one["group_id"]: [one.get(name) for name in names] for one in found}
        answers[str(version)] = [by_name[group], by_name["no-such-group"]]
    return answers


@question
def lists(asker: Asker) -> Any:
    """ListGroups v0, v4 and v5 with filters: how a simple group is listed, or null."""
    group = new_group(asker)
    commit(asker, group, shared_topic(asker))

    def listed(version: int, **filters: Any) -> Any:
        answer = asker.fields("ListGroups", version, **filters)
        own = [one for one in answer["groups"] if one["group_id"] == group]
        return [answer["error_code"], {k: v for k, v in own[0].items() if k != "group_id"} if own else None]

    return {
        "v0": listed(0),
        "v4": listed(4, states_filter=[]),
        "v4 empty": listed(4, states_filter=["eMPty"]),
        "v4 stable": listed(4, states_filter=["Stable"]),
        "v4 nonsense": listed(4, states_filter=["nonsense"]),
        "v5": listed(5, states_filter=[], types_filter=[]),
        "v5 classic": listed(5, states_filter=[], types_filter=["classic"]),
        "v5 consumer": listed(5, states_filter=[], types_filter=["Consumer"]),
        "v5 nonsense": listed(5, states_filter=[], types_filter=["nonsense"]),
    }


@question
def deletes_of_groups(asker: Asker) -> Any:
    """DeleteGroups v2: a simple group, one that does not exist, none and the first again."""
    group, topic = new_group(asker), shared_topic(asker)
    commit(asker, group, topic)
    commit(asker, "", topic)  # other questions make or delete this one
    answers = []
    for name in (group, "no-such-group", "", group):
        (result,) = asker.fields("DeleteGroups", 2, groups_names=[name])["results"]
        answers.append(result["error_code"])
    return [answers, fetch(asker, group, None)]
