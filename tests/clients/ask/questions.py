"""Every question, by name."""

from tests.clients.ask import (
    batch,
    config,
    consumer_group,
    fetch,
    frame,
    group,
    group_offset,
    offset,
    produce,
    sequence,
    timestamp,
    topic,
    transaction,
)
from tests.clients.ask.asker import QUESTIONS, Asker

__all__ = [
    "QUESTIONS",
    "Asker",
    "batch",
    "config",
    "consumer_group",
    "fetch",
    "frame",
    "group",
    "group_offset",
    "offset",
    "produce",
    "sequence",
    "timestamp",
    "topic",
    "transaction",
]
