"""Safeguards of administrators' requests, each taken away by a patch, so that the simulator can show its need."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from tailrace.coordination.cluster import ClusterMetadata
from tailrace.runtime import partition
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication import fetcher, followed, leadership
from tailrace.storage.log import Log


@contextmanager
def leader_deletes_too_much() -> Iterator[None]:
    """A leader that is told to delete some records deletes all that are committed."""
    delete = Partition.delete_records
    with patch.object(Partition, "delete_records", lambda replica, _offset: delete(replica, -1)):
        yield


@contextmanager
def followers_keep_deleted_records() -> Iterator[None]:
    """A follower does not learn where its leader's log begins, and nobody waits for it."""
    learn = Partition.learn
    start = property(lambda replica: replica.log.log_start_offset)
    with patch.object(Partition, "learn", lambda replica, high_watermark, _start: learn(replica, high_watermark, 0)):
        with patch.object(Partition, "low_watermark", start):
            yield


@contextmanager
def late_writes_change_the_next_topic() -> Iterator[None]:
    """What was decided about a topic that has been deleted counts for the next one of that name."""
    with patch.object(ClusterMetadata, "_topic_guards", lambda *_: []):
        yield


@contextmanager
def log_starts_are_told_early() -> Iterator[None]:
    """DeleteRecords is acknowledged when all replicas know the log start, and not when a crash cannot undo it."""

    def known(log: Log) -> int:
        return log.log_start_offset

    with (
        patch.object(partition, "durable_start_offset", known),
        patch.object(leadership, "durable_start_offset", known),
        patch.object(followed, "durable_start_offset", known),
    ):
        yield


@contextmanager
def new_replicas_forget_producers() -> Iterator[None]:
    """A follower that begins at the log start of its leader does not learn of the producers of deleted records."""
    with patch.object(fetcher, "read_producers", lambda *_: []):
        yield


ABLATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "leader deletes too much": leader_deletes_too_much,
    "followers keep deleted records": followers_keep_deleted_records,
    "late writes change the next topic": late_writes_change_the_next_topic,
    "log starts are told early": log_starts_are_told_early,
    "new replicas forget producers": new_replicas_forget_producers,
}

FOUND: dict[str, frozenset[str]] = {
    "leader deletes too much": frozenset({"excessive-deletion", "lost-write", "unseen"}),
    "followers keep deleted records": frozenset({"log-start-falls", "undeleted", ", and its leader at"}),
    "late writes change the next topic": frozenset({"it leads in epoch", "follows PartitionRecord"}),
    "log starts are told early": frozenset({"log-start-falls", "undeleted", "start-falls"}),
    "new replicas forget producers": frozenset({"duplicate"}),
}
"""The first words of the problems by which each is found."""
