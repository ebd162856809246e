"""One module a family of APIs; importing them all fills the registry."""

from runnel.server.handlers import (
    api_versions,
    cluster,
    config,
    coordinator,
    epoch,
    fetch,
    list_offsets,
    log_dir,
    metadata,
    produce,
    producer_id,
    records,
    topic,
    topic_partitions,
)

__all__ = [
    "api_versions",
    "cluster",
    "config",
    "coordinator",
    "epoch",
    "fetch",
    "list_offsets",
    "log_dir",
    "metadata",
    "produce",
    "producer_id",
    "records",
    "topic",
    "topic_partitions",
]
