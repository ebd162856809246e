"""Metadata and the life of topics."""

from __future__ import annotations

import uuid
from typing import Any

from tests.clients.ask.asker import NO_ID, Asker, creatable, is_no_id, question
from tests.clients.raw import CLOSED
from tests.eventual import eventually

BAD_NAMES = ("", ".", "..", "a/b", "../../x", "a\x00b", "x" * 250, "naïve", "a b", "a:b")


def _fresh() -> str:
    return f"ask-{uuid.uuid4().hex[:12]}"


def _codes(results: list[dict[str, Any]]) -> list[int]:
    return [result["error_code"] for result in results]


@question
def metadata_invalid_names(asker: Asker) -> Any:
    """Metadata v8 without auto-creation for names that are not allowed: [name cut to 12, error code, partitions]."""
    answers = []
    for name in BAD_NAMES:
        found = asker.metadata(name)["topics"][0]
        answers.append([found["name"][:12], found["error_code"], len(found["partitions"])])
    return answers


@question
def metadata_invalid_names_auto_create(asker: Asker) -> Any:
    """The same with auto-creation."""
    return [asker.metadata(name, auto_create=True)["topics"][0]["error_code"] for name in BAD_NAMES]


@question
def metadata_unknown(asker: Asker) -> Any:
    """Metadata v8 without auto-creation for a topic that does not exist."""
    found = asker.metadata("no-such-topic")["topics"][0]
    return {name: found[name] for name in ("error_code", "name", "is_internal", "partitions")}


@question
def metadata_unknown_v12(asker: Asker) -> Any:
    """Metadata v12 by name for a topic that does not exist: the error code, and is the id zero?"""
    found = asker.metadata("no-such-topic", version=12)["topics"][0]
    return [found["error_code"], found["name"], is_no_id(found["topic_id"])]


@question
def metadata_auto_create(asker: Asker) -> Any:
    """Metadata v8 with auto-creation for a new topic: the codes of the first answer and, soon after, of another."""
    name = _fresh()
    first = asker.metadata(name, auto_create=True)["topics"][0]
    later = eventually(lambda: asker.metadata(name)["topics"][0], lambda topic: topic["error_code"] == 0)
    return [first["error_code"], later["error_code"], len(later["partitions"])]


def _by_id(asker: Asker, topic_id: uuid.UUID, name: str | None, version: int = 12) -> Any:
    answer = asker.ask(
        "Metadata",
        version,
        topics=[{"topic_id": topic_id, "name": name}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    if isinstance(answer, str):
        return answer
    found = answer["topics"]
    return [[topic["error_code"], topic["name"] is None, (topic["topic_id"] or NO_ID) == topic_id] for topic in found]


@question
def metadata_by_id(asker: Asker) -> Any:
    """Metadata v12 by id, as [error, name is null, id is the one asked]: known, unknown, zero with a null name."""
    topic_id = asker.topic_id(asker.topic())
    return {
        "known": _by_id(asker, topic_id, None),
        "unknown": _by_id(asker, uuid.UUID(int=12345), None),
        "zero": _by_id(asker, NO_ID, None),
        "id and name": _by_id(asker, topic_id, "other"),
        "v10 by id": _by_id(asker, topic_id, "other", 10),
    }


@question
def metadata_none_and_all(asker: Asker) -> Any:
    """Metadata v1 and v8 with an empty list (no topics) and with null (all): are there topics in the answer?"""
    asker.topic()
    answers = {}
    for version in (1, 8):
        for label, topics in (("empty", []), ("null", None)):
            extra: dict[str, Any] = {"allow_auto_topic_creation": False} if version >= 4 else {}
            answers[f"v{version} {label}"] = bool(asker.fields("Metadata", version, topics=topics, **extra)["topics"])
    answers["v0 empty"] = bool(asker.fields("Metadata", 0, topics=[])["topics"])
    return answers


@question
def metadata_same_topic_twice(asker: Asker) -> Any:
    """Metadata v8 that names one topic twice: how many entries come back?"""
    topic = asker.topic()
    return len(asker.metadata(topic, topic)["topics"])


@question
def create_partitions_and_factor(asker: Asker) -> Any:
    """CreateTopics v4 for partitions 0, -5, -1; factor 0, 5, -1, -5."""
    cases: dict[str, dict[str, Any]] = {
        "partitions 0": {"partitions": 0},
        "partitions -5": {"partitions": -5},
        "partitions -1": {"partitions": -1},
        "factor 0": {"factor": 0},
        "factor 5": {"factor": 5},
        "factor -1": {"factor": -1},
        "factor -5": {"factor": -5},
    }
    return {label: _codes(asker.create(creatable(_fresh(), **case)))[0] for label, case in cases.items()}


@question
def create_assignments(asker: Asker) -> Any:
    """CreateTopics v4 with manual assignments: good, with counts, unknown broker, repeated, empty, a gap."""
    cases: dict[str, dict[str, Any]] = {
        "good": {"partitions": -1, "factor": -1, "assignments": {0: [1], 1: [1]}},
        "with partitions": {"partitions": 2, "factor": -1, "assignments": {0: [1], 1: [1]}},
        "with factor": {"partitions": -1, "factor": 1, "assignments": {0: [1], 1: [1]}},
        "unknown broker": {"partitions": -1, "factor": -1, "assignments": {0: [99]}},
        "repeated broker": {"partitions": -1, "factor": -1, "assignments": {0: [1, 1]}},
        "no broker": {"partitions": -1, "factor": -1, "assignments": {0: []}},
        "numbers with a gap": {"partitions": -1, "factor": -1, "assignments": {0: [1], 2: [1]}},
    }
    return {label: _codes(asker.create(creatable(_fresh(), **case)))[0] for label, case in cases.items()}


@question
def create_same_twice_in_one_request(asker: Asker) -> Any:
    """CreateTopics v4 that names one topic twice, next to a good one: the codes, good one last."""
    twice = _fresh()
    results = asker.create(creatable("zz" + _fresh()), creatable(twice), creatable(twice))
    return [result["error_code"] for result in results]


@question
def create_existing(asker: Asker) -> Any:
    """CreateTopics v4 for a topic that exists."""
    return _codes(asker.create(creatable(asker.topic())))


@question
def create_bad_configs(asker: Asker) -> Any:
    """CreateTopics v4 with an unknown config, a bad value, a null value, a value out of range, an empty name."""
    cases: dict[str, dict[str, str | None]] = {
        "unknown": {"no.such.config": "1"},
        "not a number": {"retention.ms": "abc"},
        "null": {"retention.ms": None},
        "out of range": {"segment.bytes": "1"},
        "bad enum": {"cleanup.policy": "shred"},
        "empty name": {"": "1"},
        "broker name": {"log.retention.ms": "1"},
        "cleanup both": {"cleanup.policy": "compact,delete"},
        "cleanup empty": {"cleanup.policy": ""},
        "spaces": {"retention.ms": " 5 "},
    }
    return {label: _codes(asker.create(creatable(_fresh(), configs=case)))[0] for label, case in cases.items()}


@question
def create_bad_names(asker: Asker) -> Any:
    """CreateTopics v4 with names that are not allowed: error codes."""
    return [asker.create(creatable(name))[0]["error_code"] for name in BAD_NAMES]


@question
def create_colliding_names(asker: Asker) -> Any:
    """`x.y` exists, then `x_y`; both in one request; and `x.y` again."""
    stem = _fresh()
    other = _fresh()
    asker.topic(f"{stem}.y")
    return {
        "after": _codes(asker.create(creatable(f"{stem}_y"))),
        "together": _codes(asker.create(creatable(f"{other}.y"), creatable(f"{other}_y"))),
        "same": _codes(asker.create(creatable(f"{stem}.y"))),
    }


@question
def create_validate_only(asker: Asker) -> Any:
    """CreateTopics v4 with validate only: the code, and does the topic exist afterwards?"""
    name = _fresh()
    result = asker.create(creatable(name), validate_only=True)
    return [result[0]["error_code"], asker.metadata(name)["topics"][0]["error_code"]]


@question
def create_nothing(asker: Asker) -> Any:
    """CreateTopics v4 with no topics."""
    return asker.create()


@question
def create_v7(asker: Asker) -> Any:
    """CreateTopics v7: what it says of partitions, factor, id and configs of a new topic with one config."""
    topic = creatable(_fresh(), configs={"retention.ms": "1000"}, partitions=-1, factor=-1)
    found = asker.fields("CreateTopics", 7, topics=[topic], timeout_ms=60_000, validate_only=False)["topics"][0]
    config = next(c for c in found["configs"] if c["name"] == "retention.ms")
    return {
        "num_partitions": found["num_partitions"],
        "replication_factor": found["replication_factor"],
        "has_id": not is_no_id(found["topic_id"]),
        "retention.ms": [config["value"], config["read_only"], config["config_source"], config["is_sensitive"]],
        "default source": next(c for c in found["configs"] if c["name"] == "cleanup.policy")["config_source"],
    }


@question
def create_v7_error_fields(asker: Asker) -> Any:
    """CreateTopics v7 that fails: partitions, factor, configs and id in the answer."""
    topic = creatable("..")
    found = asker.fields("CreateTopics", 7, topics=[topic], timeout_ms=60_000, validate_only=False)["topics"][0]
    return [
        found["error_code"],
        found["num_partitions"],
        found["replication_factor"],
        found["configs"],
        is_no_id(found["topic_id"]),
    ]


@question
def create_internal_name(asker: Asker) -> Any:
    """CreateTopics v4 for a new topic whose name starts with two underscores."""
    return _codes(asker.create(creatable("__" + _fresh())))


def _delete(asker: Asker, *names: str) -> Any:
    answer = asker.fields("DeleteTopics", 3, topic_names=list(names), timeout_ms=60_000)
    return [result["error_code"] for result in answer["responses"]]


@question
def delete(asker: Asker) -> Any:
    """DeleteTopics v3: an existing topic, again, an unknown one, a bad name, one name twice in a request."""
    topic, twice = asker.topic(), asker.topic()
    return {
        "existing": _delete(asker, topic),
        "gone": eventually(lambda: asker.metadata(topic)["topics"][0]["error_code"], lambda code: code == 3),
        "again": _delete(asker, topic),
        "unknown": _delete(asker, "no-such-topic"),
        "bad name": _delete(asker, ".."),
        "twice": sorted(_delete(asker, twice, twice)),
        "empty": _delete(asker),
    }


def _delete_by(asker: Asker, *topics: dict[str, Any]) -> Any:
    answer = asker.ask("DeleteTopics", 6, topics=list(topics), timeout_ms=60_000)
    if isinstance(answer, str):
        return answer
    return sorted([[r["error_code"], r["name"] is None, is_no_id(r["topic_id"])] for r in answer["responses"]])


@question
def delete_by_id(asker: Asker) -> Any:
    """DeleteTopics v6 as [error, name is null, id is zero]: by id, unknown id, both, neither."""
    first, second = asker.topic(), asker.topic()
    return {
        "by id": _delete_by(asker, {"name": None, "topic_id": asker.topic_id(first)}),
        "unknown id": _delete_by(asker, {"name": None, "topic_id": uuid.UUID(int=12345)}),
        "id and name": _delete_by(asker, {"name": second, "topic_id": asker.topic_id(second)}),
        "neither": _delete_by(asker, {"name": None, "topic_id": NO_ID}),
        "unknown name": _delete_by(asker, {"name": "no-such-topic", "topic_id": NO_ID}),
    }


def _grow(asker: Asker, *wanted: tuple[str, int], assignments: Any = None, validate_only: bool = False) -> Any:
    topics = [{"name": name, "count": count, "assignments": assignments} for name, count in wanted]
    answer = asker.fields("CreatePartitions", 1, topics=topics, timeout_ms=60_000, validate_only=validate_only)
    return [result["error_code"] for result in answer["results"]]


@question
def create_partitions(asker: Asker) -> Any:
    """CreatePartitions v1 on a topic with two: the codes."""
    topic = asker.topic(partitions=2)
    return {
        "same": _grow(asker, (topic, 2)),
        "fewer": _grow(asker, (topic, 1)),
        "zero": _grow(asker, (topic, 0)),
        "negative": _grow(asker, (topic, -3)),
        "unknown topic": _grow(asker, ("no-such-topic", 3)),
        "bad name": _grow(asker, ("..", 3)),
        "twice": _grow(asker, (topic, 3), (topic, 4)),
        "too few assignments": _grow(asker, (topic, 4), assignments=[{"broker_ids": [1]}]),
        "unknown broker": _grow(asker, (topic, 3), assignments=[{"broker_ids": [42]}]),
        "wrong factor": _grow(asker, (topic, 3), assignments=[{"broker_ids": [1, 1]}]),
        "validate only": _grow(asker, (topic, 3), validate_only=True),
        "good": _grow(asker, (topic, 3)),
        "after": eventually(lambda: _partition_count(asker, topic), lambda count: count == 3),
    }


def _partition_count(asker: Asker, topic: str) -> int:
    return len(asker.metadata(topic)["topics"][0]["partitions"])


@question
def describe_topic_partitions(asker: Asker) -> Any:
    """DescribeTopicPartitions v0 for a known, an unknown and a bad name: [error, partitions] sorted by name."""
    topic = asker.topic("ask-a" + _fresh(), partitions=2)
    names = [{"name": name} for name in (topic, "no-such-topic", "..")]
    answer = asker.ask("DescribeTopicPartitions", 0, topics=names, response_partition_limit=2000, cursor=None)
    if answer == CLOSED or isinstance(answer, str):
        return answer
    found = sorted(answer["topics"], key=lambda entry: str(entry["name"]))
    return [[entry["error_code"], len(entry["partitions"])] for entry in found]
