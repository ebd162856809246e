"""Questions to a broker, and the two or three calls that most of them need.

A question is a function that takes an `Asker` and returns its answer as JSON values. Its
docstring is the question in words. `QUESTIONS` holds them all by name once the modules of
this folder are imported; the same functions put the question to Apache Kafka (to record the
answer) and to Tailrace (to compare).
"""

from __future__ import annotations

import functools
import struct
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from tests.clients.raw import CLOSED, TIMEOUT_S, Answer, Wire, batch

T = TypeVar("T")
NO_ID = uuid.UUID(int=0)
QUESTIONS: dict[str, Callable[[Asker], Any]] = {}


class TopicRefused(Exception):
    """The topic that a question needs could not be created."""


def question(function: Callable[[Asker], Any]) -> Callable[[Asker], Any]:
    """Enter a question under its module's and its own name."""

    @functools.wraps(function)
    def asked(asker: Asker) -> Any:
        try:
            return function(asker)
        except TopicRefused as refusal:
            return {"the topic is refused with": refusal.args[0]}

    QUESTIONS[f"{function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"] = asked
    return asked


class Asker:
    """Puts questions to one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def wire(self, timeout_s: float = TIMEOUT_S) -> Wire:
        """A new connection."""
        return Wire(self.bootstrap, timeout_s)

    def ask(self, name: str, version: int, /, **fields: Any) -> Answer:
        """One request on a connection of its own."""
        with self.wire() as wire:
            return wire.ask(name, version, **fields)

    def fields(self, name: str, version: int, /, **fields: Any) -> dict[str, Any]:
        """The same, for a request that must be answered."""
        answer = self.ask(name, version, **fields)
        if isinstance(answer, str):
            raise AssertionError(f"{name} v{version}: {answer}")
        return answer

    def alive(self, wire: Wire) -> str:
        """Whether a connection still answers."""
        return CLOSED if isinstance(wire.ask("ApiVersions", 0), str) else "open"

    def topic(self, name: str | None = None, *, partitions: int = 1, **configs: str) -> str:
        """A new topic, ready for use; its config names are written with underscores."""
        name = name or f"ask-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        created = self.create(creatable(name, partitions=partitions, configs=settings))
        if created[0]["error_code"] != 0:
            raise TopicRefused(created[0]["error_code"])
        deadline = time.monotonic() + TIMEOUT_S
        while not self._has_leaders(name, partitions):
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} has no leader")
        return name

    def _has_leaders(self, name: str, partitions: int) -> bool:
        found = self.metadata(name)["topics"][0]["partitions"]
        if len(found) != partitions or any(partition["error_code"] for partition in found):
            return False
        # A broker may show the partition before it takes records for it.
        listed = [self.list_offsets(name, -1, index=index) for index in range(partitions)]
        return not any(answer["error_code"] for answer in listed)

    def create(self, *topics: dict[str, Any], version: int = 4, validate_only: bool = False) -> list[dict[str, Any]]:
        """CreateTopics; one summary a topic, sorted by name."""
        answer = self.fields(
            "CreateTopics", version, topics=list(topics), timeout_ms=60_000, validate_only=validate_only
        )
        summaries = [{"name": topic["name"], "error_code": topic["error_code"]} for topic in answer["topics"]]
        return sorted(summaries, key=lambda summary: str(summary["name"]))

    def metadata(self, *names: str, version: int = 8, auto_create: bool = False) -> dict[str, Any]:
        """Metadata for some topics by name."""
        extra = {"include_cluster_authorized_operations": False} if 8 <= version <= 10 else {}
        return self.fields(
            "Metadata",
            version,
            topics=[{"name": name} if version < 10 else {"name": name, "topic_id": NO_ID} for name in names],
            allow_auto_topic_creation=auto_create,
            include_topic_authorized_operations=False,
            **extra,
        )

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic."""
        found: uuid.UUID = self.metadata(name, version=12)["topics"][0]["topic_id"]
        return found

    def produce(
        self, topic: str, records: bytes | None, *, version: int = 8, acks: int = -1, partition: int = 0
    ) -> Any:
        """Produce to one partition; the partition's part of the answer, or `CLOSED`."""
        answer = self.ask("Produce", version, **produce_fields(topic, records, acks, partition))
        return produce_summary(answer)

    def list_offsets(self, topic: str, timestamp: int, *, index: int = 0, version: int = 5, epoch: int = -1) -> Any:
        """ListOffsets for one partition; the partition's part of the answer."""
        partition = {"partition_index": index, "current_leader_epoch": epoch, "timestamp": timestamp}
        topics = [{"name": topic, "partitions": [partition]}]
        extra = {"timeout_ms": 60_000} if version >= 10 else {}
        answer = self.fields("ListOffsets", version, replica_id=-1, isolation_level=0, topics=topics, **extra)
        return answer["topics"][0]["partitions"][0]

    def stored(self, topic: str) -> list[tuple[int, int, int, int]]:
        """(base offset, last offset delta, attributes, record count) of every stored batch of partition 0."""
        from tests.clients.ask.fetch import fetch

        answer = fetch(self, topic, 0)
        data = answer["responses"][0]["partitions"][0]["records"] or b""
        batches, position = [], 0
        while position < len(data):
            base, size = struct.unpack_from(">qi", data, position)
            attributes, last = struct.unpack_from(">hi", data, position + 21)
            (count,) = struct.unpack_from(">i", data, position + 57)
            batches.append((base, last, attributes, count))
            position += 12 + size
        return batches


def is_no_id(topic_id: uuid.UUID | None) -> bool:
    """Whether a topic id is the all-zero one, which kafka-python reads as None."""
    return topic_id is None or topic_id == NO_ID


def creatable(
    name: str,
    *,
    partitions: int = 1,
    factor: int = 1,
    assignments: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | dict[str, str] | None = None,
) -> dict[str, Any]:
    """A topic as CreateTopics wants it."""
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [{"partition_index": p, "broker_ids": ids} for p, ids in (assignments or {}).items()],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }


def produce_fields(topic: str, records: bytes | None, acks: int, partition: int) -> dict[str, Any]:
    """The fields of a Produce request to one partition."""
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout_ms": 60_000,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
    }


def produce_summary(answer: Answer) -> Any:
    """What matters of a Produce answer for one partition: the code, or where the records are."""
    if isinstance(answer, str):
        return answer
    partition = answer["responses"][0]["partition_responses"][0]
    if partition["error_code"]:
        return {"error_code": partition["error_code"], "base_offset": partition["base_offset"]}
    return {
        "error_code": 0,
        "base_offset": partition["base_offset"],
        "log_append_time_ms": min(partition["log_append_time_ms"], 0),
        "log_start_offset": partition.get("log_start_offset"),
    }


def filled(asker: Asker, count: int = 10, **configs: str) -> str:
    """A topic with that many records in as many batches, a second apart."""
    topic = asker.topic(partitions=1, **configs)
    for index in range(count):
        asker.produce(topic, batch([b"value-%d" % index], timestamp_ms=1_700_000_000_000 + index * 1000))
    return topic
