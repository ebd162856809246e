"""Safeguards of administrators' requests, each taken away by a patch, so that the simulator can show its need."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from tailrace.runtime.partition import Partition


@contextmanager
def leader_deletes_too_much() -> Iterator[None]:
    """A leader that is told to delete some records deletes all that are committed."""
    delete = Partition.delete_records
    with patch.object(Partition, "delete_records", lambda partition, _offset: delete(partition, -1)):
        yield


@contextmanager
def followers_keep_deleted_records() -> Iterator[None]:
    """A follower does not learn where its leader's log begins, and nobody waits for it."""
    learn = Partition.learn
    start = property(lambda partition: partition.log.log_start_offset)
    with patch.object(
        Partition, "learn", lambda partition, high_watermark, _start: learn(partition, high_watermark, 0)
    ):
        with patch.object(Partition, "low_watermark", start):
            yield


ABLATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "leader deletes too much": leader_deletes_too_much,
    "followers keep deleted records": followers_keep_deleted_records,
}

FOUND: dict[str, frozenset[str]] = {
    "leader deletes too much": frozenset({"excessive-deletion", "lost-write", "unseen"}),
    "followers keep deleted records": frozenset({"log-start-falls", "undeleted", ", and its leader at"}),
}
"""The first words of the problems by which each is found."""
