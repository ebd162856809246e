"""Every question, by name."""

from tests.clients.ask import (
    batch,
    compression,
    config,
    consumer_group,
    fetch,
    frame,
    group,
    group_offset,
    offset,
    produce,
    quota,
    security,
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
    "compression",
    "config",
    "consumer_group",
    "fetch",
    "frame",
    "group",
    "group_offset",
    "offset",
    "produce",
    "quota",
    "security",
    "sequence",
    "timestamp",
    "topic",
    "transaction",
]
