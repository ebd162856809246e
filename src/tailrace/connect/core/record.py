"""The records of the topics for configs, statuses and offsets, as Kafka Connect writes them.

Keys of configs and statuses are texts that begin with what they are about; keys of offsets and all values are JSON.
A record without a value deletes what its key names.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple


class Store(StrEnum):
    """The topics of a Connect service by what they hold."""

    CONFIGS = "configs"
    STATUSES = "statuses"
    OFFSETS = "offsets"


class Row(NamedTuple):
    """A record to write. A value of None deletes what the key names."""

    store: Store
    key: str
    value: Mapping[str, Any] | None

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return the bytes of the key and of the value."""
        value = None if self.value is None else json.dumps(self.value, ensure_ascii=False, separators=(",", ":"))
        return self.key.encode(), None if value is None else value.encode()


class Target(StrEnum):
    """The state that a user wants a connector to be in."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class Phase(StrEnum):
    """The state that a connector or a task is in."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a connector or a task, as the worker that runs it has noted it."""

    phase: Phase
    worker_id: str
    generation: int
    trace: str | None = None

    @property
    def value(self) -> dict[str, Any]:
        """The value of its record."""
        return {
            "state": str(self.phase),
            "trace": self.trace,
            "worker_id": self.worker_id,
            "generation": self.generation,
        }


@dataclass(frozen=True, slots=True)
class TopicUse:
    """A topic that a connector has read or written."""

    topic: str
    connector: str
    task: int
    found_at_ms: int


CONNECTOR = "connector-"
TARGET = "target-state-"
TASK = "task-"
COMMIT = "commit-"
LOGGER = "logger-cluster-"
CONNECTOR_STATUS = "status-connector-"
TASK_STATUS = "status-task-"
TOPIC = "status-topic-"
TOPIC_OF = ":connector-"
WORKER = "tailrace-worker"
"""The key of the record with which a service takes over from the one before it. Kafka Connect skips such a key."""


# --- configs


def config_row(name: str, config: Mapping[str, str]) -> Row:
    """Return the record of a connector's config."""
    return Row(Store.CONFIGS, CONNECTOR + name, {"properties": dict(config)})


def task_rows(name: str, tasks: Sequence[Mapping[str, str]]) -> list[Row]:
    """Return the records of a connector's tasks; the last one makes them count."""
    found = [
        Row(Store.CONFIGS, f"{TASK}{name}-{index}", {"properties": dict(task)}) for index, task in enumerate(tasks)
    ]
    return [*found, Row(Store.CONFIGS, COMMIT + name, {"tasks": len(tasks)})]


def target_row(name: str, target: Target) -> Row:
    """Return the record of the state that a user wants. Workers before Kafka 3.5 know no STOPPED and read PAUSED."""
    known = Target.PAUSED if target is Target.STOPPED else target
    return Row(Store.CONFIGS, TARGET + name, {"state": str(known), "state.v2": str(target)})


def removal_rows(name: str) -> list[Row]:
    """Return the records that delete the config of a connector."""
    return [Row(Store.CONFIGS, CONNECTOR + name, None), Row(Store.CONFIGS, TARGET + name, None)]


def logger_row(name: str, level: str) -> Row:
    """Return the record of a logger's level."""
    return Row(Store.CONFIGS, LOGGER + name, {"level": level})


# --- statuses


def status_row(name: str, status: Status | None) -> Row:
    """Return the record of a connector's status."""
    return Row(Store.STATUSES, CONNECTOR_STATUS + name, None if status is None else status.value)


def task_status_row(name: str, task: int, status: Status | None) -> Row:
    """Return the record of a task's status."""
    return Row(Store.STATUSES, f"{TASK_STATUS}{name}-{task}", None if status is None else status.value)


def worker_row(worker_id: str, generation: int) -> Row:
    """Return the record that tells services of earlier generations to stop."""
    return Row(Store.STATUSES, WORKER, {"worker_id": worker_id, "generation": generation})


def topic_row(use: TopicUse, *, is_used: bool = True) -> Row:
    """Return the record of a topic that a connector uses, or uses no longer."""
    about = {
        "name": use.topic,
        "connector": use.connector,
        "task": use.task,
        "discoverTimestamp": use.found_at_ms,
    }
    return Row(Store.STATUSES, f"{TOPIC}{use.topic}{TOPIC_OF}{use.connector}", {"topic": about} if is_used else None)


# --- offsets


def offset_row(name: str, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> Row:
    """Return the record of how far a source has been read."""
    return Row(Store.OFFSETS, json.dumps([name, partition], ensure_ascii=False, separators=(",", ":")), offset)
