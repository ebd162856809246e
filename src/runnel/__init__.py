"""Runnel: a distributed commit log that speaks Kafka's wire protocol.

The clients are here by name and loaded when they are first used, so that a broker starts without them.
"""

import logging
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from runnel import aio as aio
    from runnel.client.admin import NewTopic as NewTopic
    from runnel.client.admin import ResourceType as ResourceType
    from runnel.client.consumer import Consumer as Consumer
    from runnel.client.consumer_record import ConsumerRecord as ConsumerRecord
    from runnel.client.delivery import RecordMetadata as RecordMetadata
    from runnel.client.error import ClientError as ClientError
    from runnel.client.error import CommitFailed as CommitFailed
    from runnel.client.error import ProducerFenced as ProducerFenced
    from runnel.client.error import RequestTimeout as RequestTimeout
    from runnel.client.error import TransactionFailed as TransactionFailed
    from runnel.client.group_offset import GroupMetadata as GroupMetadata
    from runnel.client.group_offset import OffsetAndMetadata as OffsetAndMetadata
    from runnel.client.producer import Producer as Producer
    from runnel.client.sync_admin import Admin as Admin
    from runnel.client.table_read import read_table as read_table
    from runnel.client.table_send import TableDelivery as TableDelivery
    from runnel.client.topic_partition import TopicPartition as TopicPartition
    from runnel.client.transaction_state import PreparedTransaction as PreparedTransaction
    from runnel.config.error import ConfigError as ConfigError
    from runnel.protocol.errors import ApiError as ApiError
    from runnel.protocol.errors import ErrorCode as ErrorCode

_HOMES = {
    "Admin": "runnel.client.sync_admin",
    "ApiError": "runnel.protocol.errors",
    "ClientError": "runnel.client.error",
    "CommitFailed": "runnel.client.error",
    "ConfigError": "runnel.config.error",
    "Consumer": "runnel.client.consumer",
    "ConsumerRecord": "runnel.client.consumer_record",
    "ErrorCode": "runnel.protocol.errors",
    "GroupMetadata": "runnel.client.group_offset",
    "NewTopic": "runnel.client.admin",
    "OffsetAndMetadata": "runnel.client.group_offset",
    "PreparedTransaction": "runnel.client.transaction_state",
    "Producer": "runnel.client.producer",
    "ProducerFenced": "runnel.client.error",
    "RecordMetadata": "runnel.client.delivery",
    "RequestTimeout": "runnel.client.error",
    "ResourceType": "runnel.client.admin",
    "TableDelivery": "runnel.client.table_send",
    "TopicPartition": "runnel.client.topic_partition",
    "TransactionFailed": "runnel.client.error",
    "read_table": "runnel.client.table_read",
}

_LOGGERS = (
    "runnel",
    "runnel.client.delivery",
    "runnel.client.fetcher",
    "runnel.client.group",
    "runnel.client.group_classic",
    "runnel.client.group_modern",
    "runnel.client.locator",
    "runnel.client.sender",
    "runnel.client.transaction_scope",
    "runnel.client.truncation",
    "runnel.runtime",
    "runnel.server",
    "runnel.spark.batch_end",
    "runnel.spark.data_loss",
    "runnel.spark.discovery",
    "runnel.spark.option",
    "runnel.storage.folder",
    "runnel.storage.log_dir",
    "runnel.storage.producer_replay",
    "runnel.storage.recovery",
    "runnel.storage.segment_swap",
    "runnel.storage.transaction_lookup",
    "runnel.testing",
    "runnel.zookeeper",
)

# Made before any module needs them: while pyspark makes a logger, all threads make loggers of its class, which only
# write warnings and write them as JSON to stderr. An embedded broker may import a module at just that moment.
for _name in _LOGGERS:
    logging.getLogger(_name)


def __getattr__(name: str) -> Any:
    """Load what is asked for (PEP 562)."""
    import importlib

    if name == "aio":
        return importlib.import_module("runnel.aio")
    if name not in _HOMES:
        raise AttributeError(f"module 'runnel' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, "aio"])
